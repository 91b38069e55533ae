"""unique, bitmaps, frequencies and prefixes: rows in order, without repeats, counted, and the rarest of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import NO_DIGEST, Backend
from tests.backends.parity.agreement import agree, far_array, said
from tests.support.rows import LENGTHS, random_table, table, tables
from tests.support.same import same


def check(ops: Backend, rows: Fingerprints, bits: int) -> None:
    agree(ops, "bitmaps", rows)
    unique = agree(ops, "unique", rows)
    sizes, before = np.diff(unique.offset), np.full(1 << bits, 250 if bits == 1 else 0, np.uint8)
    agree(ops, "frequencies", rows, before.copy())
    counts = said("frequencies", unique, before)
    for lengths in (sizes, sizes - sizes // 2, np.minimum(sizes, 1), np.zeros_like(sizes)):
        agree(ops, "prefixes", unique, counts, lengths)


@settings(max_examples=40)
@given(tables, st.integers(0, 5), st.sampled_from([1, 8, 8, 16]))
def test_any_rows(ops: Backend, rows: list[list[int]], before: int, bits: int) -> None:
    check(ops, table(rows, before), bits)


@pytest.mark.parametrize("bits", [1, 8, 16])
@pytest.mark.parametrize("universe", [2**64, 5000, 60, 2])
def test_rows_of_every_length(ops: Backend, universe: int, bits: int) -> None:
    check(ops, random_table(LENGTHS, universe), bits)


@pytest.mark.parametrize("universe", [2, 100, 2**20])
def test_unique_of_awkward_rows(ops: Backend, universe: int) -> None:
    for lengths in (LENGTHS[::-1], [40], [3000], [], [0, 0], [2] * 70, [0] * 300 + [290]):
        agree(ops, "unique", random_table(lengths, universe))


def test_unique_of_rows_in_order(ops: Backend) -> None:
    up = list(range(300))
    agree(ops, "unique", table([up, up[::-1], up, [NO_DIGEST] * 300, up[:2], [0] * 33]))
    agree(ops, "unique", table([up, up[5:], []]))  # nothing to leave out


@pytest.mark.parametrize("upper", [1, 5, 1 << 10, 1 << 16, 1 << 40, 1 << 64])
def test_unique_of_values_that_are_no_hashes(ops: Backend, upper: int) -> None:
    values = np.random.default_rng(7).integers(0, upper, 30_000, dtype=np.uint64)
    agree(ops, "unique", Fingerprints(values, np.array([0, 30, 30, 700, 30_000])))


@settings(max_examples=25)
@given(tables, st.integers(0, 3), st.integers(0, 6), st.data())
def test_frequencies_of_any_counts(
    ops: Backend, rows: list[list[int]], before: int, bits: int, data: st.DataObject
) -> None:
    byte = st.sampled_from([0, 1, 2, 250, 253, 254, 255])
    counts = np.array(data.draw(st.lists(byte, min_size=2**bits, max_size=2**bits)), np.uint8)
    agree(ops, "frequencies", table(rows, before), counts)


def test_frequencies_stop_at_255(ops: Backend) -> None:
    rows = table([[1 << 62] * 300, [3 << 62] * 254])
    assert agree(ops, "frequencies", rows, np.zeros(4, np.uint8)).tolist() == [0, 255, 0, 254]


@settings(max_examples=25)
@given(tables, st.integers(0, 3), st.integers(0, 6), st.data())
def test_prefixes_of_any_lengths(
    ops: Backend, rows: list[list[int]], before: int, bits: int, data: st.DataObject
) -> None:
    byte = st.sampled_from([0, 1, 2, 3, 255])
    counts = np.array(data.draw(st.lists(byte, min_size=2**bits, max_size=2**bits)), np.uint8)
    lengths = np.array([data.draw(st.integers(0, len(row) + 1)) for row in rows], np.int64)
    agree(ops, "prefixes", table([sorted(set(row)) for row in rows], before), counts, lengths)


@pytest.mark.parametrize("bits", [0, 1, 6, 12])
def test_prefixes_of_awkward_rows(ops: Backend, bits: int) -> None:
    unique = said("unique", random_table(LENGTHS, 2**40))
    rows = Fingerprints(np.concatenate([np.full(3, 8, np.uint64), unique.values]), unique.offset + 3)
    sizes, generator = np.diff(rows.offset), np.random.default_rng(bits)
    for frequencies in ([2], [0, 1, 2], [1, 2, 3, 254, 255], range(256)):
        counts = generator.choice(np.array(frequencies, np.uint8), 2**bits)
        for lengths in (sizes // 3, sizes + 1, np.zeros_like(sizes), np.minimum(sizes, 33), np.maximum(sizes - 1, 0)):
            agree(ops, "prefixes", rows, counts, lengths)


def test_rows_beyond_32_bits(ops: Backend) -> None:
    near = table([[5, 3, 3, 2**64 - 1], [], [3, 7], list(range(300, 0, -1))])
    for first in (2**31 + 3, 2**32 + 5):
        far = Fingerprints(far_array(ops, first, near.values), ops.asarray(near.offset + first))
        same(ops.unique(far), said("unique", near), ops.asnumpy)
        counts = np.zeros(16, np.uint8)
        same(ops.frequencies(far, ops.asarray(counts.copy())), said("frequencies", near, counts), ops.asnumpy)
