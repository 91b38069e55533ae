"""Supershingles: the pairs that agree in enough groups, and no other."""

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh import Fingerprints, MinHash, ParameterError, Signatures, Supershingles


@given(
    backend=st.sampled_from(["reference", "cpu"]),
    rows=st.lists(st.lists(st.integers(0, 1) | st.just(2**32 - 1), min_size=9, max_size=9), max_size=9),
    shape=st.sampled_from([(1, 1, 1), (4, 2, 1), (4, 2, 2), (4, 2, 4), (3, 3, 2), (9, 1, 5)]),
)
def test_any_signatures(backend: Any, rows: list[list[int]], shape: tuple[int, int, int]) -> None:
    groups, of, agree = shape
    given = np.array(rows, np.uint32).reshape(-1, 9)
    wanted = []
    for i, j in combinations(range(len(rows)), 2):
        both = sum(rows[i][g * of : g * of + of] == rows[j][g * of : g * of + of] for g in range(groups))
        empty = any(set(rows[row]) == {2**32 - 1} for row in (i, j))
        wanted += [[i, j]] if both >= agree and not empty else []
    found = Supershingles(groups=groups, of=of, agree=agree)(Signatures(given), backend=backend)
    assert found.tolist() == wanted and found.dtype == np.int64


@pytest.mark.parametrize("similarity", [0.8, 0.9, 0.95])
def test_the_collision_curve(similarity: float) -> None:
    """A group of 14 minima agrees with probability similarity^14; a pair is found where two of six do."""
    generator, pairs, size = np.random.default_rng(1), 3000, 400
    common = round(2 * size * similarity / (1 + similarity))
    values = generator.integers(0, 2**64, (pairs, 2, size), np.uint64)
    values[:, 1, :common] = values[:, 0, :common]
    rows = Fingerprints(values.reshape(-1), np.arange(2 * pairs + 1) * size)
    found = Supershingles()(MinHash(num_perm=84)(rows, backend="cpu"), backend="cpu")
    assert (found[:, 0] % 2 == 0).all() and (found[:, 1] == found[:, 0] + 1).all()
    group = (common / (2 * size - common)) ** 14
    wanted = sum(comb(6, k) * group**k * (1 - group) ** (6 - k) for k in range(2, 7))
    assert abs(len(found) / pairs - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / pairs)


@pytest.mark.parametrize(("groups", "agree"), [(65536, 32768), (30, 15)])
def test_too_many_choices(groups: int, agree: int) -> None:
    with pytest.raises(ParameterError, match=f"agree is {agree} of {groups} groups, which can be chosen in .* ways"):
        Supershingles(groups=groups, agree=agree)
