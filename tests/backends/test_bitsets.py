"""Rows that meet in many pairs as bits of a table, which only the CPU backend has."""

import itertools
import time

import numpy as np
import pytest

from gpulsh.backends.cpu import CpuBackend, intersect
from gpulsh.backends.protocol import GOLDEN
from gpulsh.backends.reference import ReferenceBackend
from tests.support.rows import table
from tests.support.same import same

REFERENCE, ONE = ReferenceBackend(), CpuBackend(1)


@pytest.mark.parametrize("rows", [2, 90])
def test_rows_that_meet_in_many_pairs(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near-copies beside rows that meet few: these take bits, those do not."""
    taken: list[int] = []
    found = intersect.overlap_bounds
    monkeypatch.setattr(intersect, "overlap_bounds", lambda *given: taken.append(len(given[1])) or found(*given))
    monkeypatch.setattr(intersect, "FEWEST_PAIRS", 1)
    generator = np.random.default_rng(rows)
    page = generator.integers(0, 2**64, 200, np.uint64)
    alike = [
        [*generator.choice(page, 190, replace=False), int(own)] for own in generator.integers(0, 2**64, rows, np.uint64)
    ]
    unique = REFERENCE.unique(table([*alike, *([value] for value in page[:30]), page.tolist(), []], before=2))
    every = np.array(list(itertools.product(range(rows), repeat=2)), np.int64)
    apart = np.stack([generator.integers(0, len(unique), 40), generator.integers(rows, len(unique), 40)], axis=1)
    pairs = generator.permutation(np.concatenate([every, apart]))
    wanted = REFERENCE.intersect(pairs, unique)
    for threads in (1, 2):
        taken.clear()
        same(CpuBackend(threads).intersect(pairs, unique), wanted)
        assert (sum(taken) >= rows * (rows - 1)) == (rows > 2)


@pytest.mark.parametrize("values", ["in one slot", "many"])
def test_rows_whose_values_fit_into_no_table(values: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that nobody hashed, or more than the table holds, are compared in order, and none is probed for long."""
    monkeypatch.setattr(intersect, "overlap_bounds", None)
    inverse = pow(GOLDEN, -1, 2**64)
    if values == "in one slot":
        rows = [[(number * inverse) % 2**64 for number in range(first, first + 5000)] for first in range(60)]
    else:
        generator = np.random.default_rng(1)
        rows = [generator.integers(0, 2**64, 5000, np.uint64).tolist() for _ in range(60)]
    unique = REFERENCE.unique(table(rows))
    pairs = np.array(list(itertools.combinations(range(60), 2)) * 2, np.int64)
    began = time.process_time()
    found = ONE.intersect(pairs, unique)
    assert time.process_time() - began < 5
    some = slice(None, None, 11)  # the reference takes its time
    same(tuple(one[some] for one in found), REFERENCE.intersect(pairs[some], unique))
