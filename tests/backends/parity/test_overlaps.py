"""intersect, and what bounds it: bitmaps and overlap_bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.protocol import Backend
from tests.backends.parity.agreement import agree, far_array, said
from tests.support.rows import LENGTHS, hashes, random_table, table
from tests.support.same import same


def check(ops: Backend, pairs: Numbers, unique: Fingerprints, *words: int) -> None:
    sizes, (common, _) = np.diff(unique.offset), agree(ops, "intersect", pairs, unique)
    for width in words:
        bounds = agree(ops, "overlap_bounds", pairs, agree(ops, "bitmaps", unique, width), sizes)
        assert (bounds >= common).all()


def all_pairs(count: int) -> Numbers:
    return np.array(list(itertools.product(range(count), repeat=2)), np.int64).reshape(-1, 2)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.one_of(st.integers(0, 200), hashes), max_size=80), min_size=1, max_size=10),
    st.integers(0, 4),
    st.sampled_from([16, 32, 64, 256]),
    st.data(),
)
def test_any_rows(ops: Backend, rows: list[list[int]], before: int, words: int, data: st.DataObject) -> None:
    row = st.integers(0, len(rows) - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(row, row), max_size=30)), np.int64).reshape(-1, 2)
    check(ops, pairs, table([sorted(set(row)) for row in rows], before), words)


@pytest.mark.parametrize("universe", [60, 600, 1024, 4096, 6000])
def test_rows_of_every_length(ops: Backend, universe: int) -> None:
    unique = said("unique", random_table([*LENGTHS[:27], *range(1, 30)], universe))
    check(ops, all_pairs(len(unique)), unique, 16, 64)


def test_rows_that_overlap_in_tiles(ops: Backend) -> None:
    up = np.arange(0, 4200, 3, dtype=np.uint64)
    rows = [up, up[100:], up[:256], up[:257], up[700:], up + np.uint64(1), up[::7], up[:0], up[255:258], up[-1:]]
    check(ops, all_pairs(len(rows)), table([row.tolist() for row in rows]), 16)


def test_no_pairs_and_no_rows(ops: Backend) -> None:
    check(ops, all_pairs(0), table([[1, 2], []]), 16, 64)
    check(ops, all_pairs(0), table([]), 16)
    check(ops, np.array([[0, 2], [0, 1]], np.int64), table([[], [5], []]), 16)


def test_bitmaps_of_repeats(ops: Backend) -> None:
    """Each flips its bit, so that two of the same leave it as it was."""
    agree(ops, "bitmaps", random_table(LENGTHS, 60))


def test_rows_beyond_32_bits(ops: Backend) -> None:
    near = said("unique", table([[5, 3, 3, 2**64 - 1], [], [3, 7], list(range(300, 0, -1))]))
    pairs = np.array([[0, 2], [1, 2], [2, 3], [1, 3]], np.int64)
    for first in (2**31 + 3, 2**32 + 5):
        far = Fingerprints(far_array(ops, first, near.values), ops.asarray(near.offset + first))
        same(ops.bitmaps(far), said("bitmaps", near), ops.asnumpy)
        same(ops.intersect(ops.asarray(pairs), far), said("intersect", pairs, near), ops.asnumpy)
