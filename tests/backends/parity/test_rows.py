"""Rows of fingerprints: unique, bitmaps, frequencies, prefixes, intersect, overlap_bounds; examples."""

import itertools

import numpy as np
import pytest

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.protocol import NO_DIGEST, Backend
from tests.backends.parity.agreement import agree, far_array, said
from tests.support.rows import LENGTHS, random_table, table
from tests.support.same import same


def check(ops: Backend, rows: Fingerprints, bits: int) -> None:
    agree(ops, "bitmaps", rows)
    unique = agree(ops, "unique", rows)
    sizes, before = np.diff(unique.offset), np.full(1 << bits, 250 if bits == 1 else 0, np.uint8)
    agree(ops, "frequencies", rows, before.copy())
    counts = said("frequencies", unique, before)
    for lengths in (sizes, sizes - sizes // 2, np.minimum(sizes, 1), np.zeros_like(sizes)):
        agree(ops, "prefixes", unique, counts, lengths)


@pytest.mark.parametrize(("universe", "bits"), [(2**64, 1), (2**64, 16), (5000, 8), (60, 16), (2, 8)])
def test_rows_of_every_length(ops: Backend, universe: int, bits: int) -> None:
    check(ops, random_table(LENGTHS, universe), bits)


def test_unique_of_awkward_rows(ops: Backend) -> None:
    for universe in (2, 100, 2**20):
        for lengths in (LENGTHS[::-1], [40], [3000], [], [0, 0], [2] * 70, [0] * 300 + [290]):
            agree(ops, "unique", random_table(lengths, universe))
    up = list(range(300))
    agree(ops, "unique", table([up, up[::-1], up, [NO_DIGEST] * 300, up[:2], [0] * 33]))
    agree(ops, "unique", table([up, up[5:], []]))  # nothing to leave out


@pytest.mark.parametrize("upper", [1, 5, 1 << 10, 1 << 16, 1 << 40, 1 << 64])
def test_unique_of_values_that_are_no_hashes(ops: Backend, upper: int) -> None:
    values = np.random.default_rng(7).integers(0, upper, 30_000, dtype=np.uint64)
    agree(ops, "unique", Fingerprints(values, np.array([0, 30, 30, 700, 30_000])))


def test_frequencies_stop_at_255(ops: Backend) -> None:
    rows = table([[1 << 62] * 300, [3 << 62] * 254])
    assert agree(ops, "frequencies", rows, np.zeros(4, np.uint8)).tolist() == [0, 255, 0, 254]


@pytest.mark.parametrize("bits", [0, 1, 6, 12])
def test_prefixes_of_awkward_rows(ops: Backend, bits: int) -> None:
    unique = said("unique", random_table(LENGTHS, 2**40))
    rows = Fingerprints(np.concatenate([np.full(3, 8, np.uint64), unique.values]), unique.offset + 3)
    sizes, generator = np.diff(rows.offset), np.random.default_rng(bits)
    for frequencies in ([2], [0, 1, 2], [1, 2, 3, 254, 255], range(256)):
        counts = generator.choice(np.array(frequencies, np.uint8), 2**bits)
        for lengths in (sizes // 3, sizes + 1, np.zeros_like(sizes), np.minimum(sizes, 33), np.maximum(sizes - 1, 0)):
            agree(ops, "prefixes", rows, counts, lengths)


def check_overlaps(ops: Backend, pairs: Numbers, unique: Fingerprints, *words: int) -> None:
    sizes, (common, _) = np.diff(unique.offset), agree(ops, "intersect", pairs, unique)
    for width in words:
        bounds = agree(ops, "overlap_bounds", pairs, agree(ops, "bitmaps", unique, width), sizes)
        assert (bounds >= common).all()


def all_pairs(count: int) -> Numbers:
    return np.array(list(itertools.product(range(count), repeat=2)), np.int64).reshape(-1, 2)


@pytest.mark.parametrize("universe", [60, 1024, 6000])
def test_overlaps_of_rows_of_every_length(ops: Backend, universe: int) -> None:
    unique = said("unique", random_table([*LENGTHS[:27], *range(1, 30)], universe))
    check_overlaps(ops, all_pairs(len(unique)), unique, 16, 64)


def test_rows_that_overlap_in_tiles(ops: Backend) -> None:
    up = np.arange(0, 4200, 3, dtype=np.uint64)
    rows = [up, up[100:], up[:256], up[:257], up[700:], up + np.uint64(1), up[::7], up[:0], up[255:258], up[-1:]]
    check_overlaps(ops, all_pairs(len(rows)), table([row.tolist() for row in rows]), 16)


def test_no_pairs_and_no_rows(ops: Backend) -> None:
    check_overlaps(ops, all_pairs(0), table([[1, 2], []]), 16, 64)
    check_overlaps(ops, all_pairs(0), table([]), 16)
    check_overlaps(ops, np.array([[0, 2], [0, 1]], np.int64), table([[], [5], []]), 16)


@pytest.mark.parametrize("first", [2**31 + 3, 2**32 + 5])
def test_rows_beyond_32_bits(ops: Backend, first: int) -> None:
    rows = table([[5, 3, 3, 2**64 - 1], [], [3, 7], list(range(300, 0, -1))])
    pairs, counts = np.array([[0, 2], [1, 2], [2, 3], [1, 3]], np.int64), np.zeros(16, np.uint8)

    def far(near: Fingerprints) -> Fingerprints:
        return Fingerprints(far_array(ops, first, near.values), ops.asarray(near.offset + first))

    same(ops.unique(far(rows)), said("unique", rows), ops.asnumpy)
    same(ops.frequencies(far(rows), ops.asarray(counts.copy())), said("frequencies", rows, counts), ops.asnumpy)
    near = said("unique", rows)
    same(ops.bitmaps(far(near)), said("bitmaps", near), ops.asnumpy)
    same(ops.intersect(ops.asarray(pairs), far(near)), said("intersect", pairs, near), ops.asnumpy)
