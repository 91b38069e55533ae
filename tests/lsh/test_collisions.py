"""Buckets of several bands; pairs as packed numbers, and their sorting."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh import ragged
from gpulsh.arrays import Array, Buckets
from gpulsh.backends.parts import in_part
from gpulsh.backends.protocol import Sizes
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.select import select_backend
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh import collisions
from gpulsh.lsh.collisions import Memberships, find_buckets
from gpulsh.lsh.pairs import lexicographic_order, pair_order, radix_order
from tests.support.rows import lists_of, table
from tests.support.texts import batch_of, documents_of
from tests.support.traced import at_most

OPS = select_backend("reference")


def columns(table: NDArray[np.uint64]) -> Any:
    """`lsh.collisions.Digests` of a table [n, bands]."""

    def band(band: int, part: int, parts: int) -> tuple[Array, Array]:
        ids = np.flatnonzero(in_part(table[:, band], part, parts))
        return table[ids, band], ids

    return SimpleNamespace(documents=len(table), bands=table.shape[1], ascending=True, band=band)


@pytest.mark.parametrize("few", [0, 1 << 16])
def test_bands_are_bucketed_in_order_by_any_number_of_threads(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    table = random.integers(0, 2**63, (900, 21), np.uint64)
    table[random.random(table.shape) < 0.4] = 5 << 40  # a large bucket in each band
    table[600:] = table[300:600]
    large, again = list[Memberships](), list[Memberships]()
    wanted = find_buckets(columns(table), OPS, lambda done: None, large.append)
    assert [set(part.band.tolist()) for part in large] == [{band} for band in range(21)]
    monkeypatch.setattr(collisions, "FEW_DOCUMENTS", few)
    steps: list[int] = []
    ops = select_backend("cpu", threads=3)
    small = find_buckets(columns(table), ops, steps.append, again.append)
    np.testing.assert_array_equal(small.ids, wanted.ids)
    np.testing.assert_array_equal(small.offset, wanted.offset)
    for part, same in zip(again, large, strict=True):
        np.testing.assert_array_equal(part, same)
    assert steps == [1] * 21


@pytest.mark.parametrize("memory", [4500, 900])
def test_a_device_buckets_all_bands_in_one_pass(memory: int) -> None:
    """Equal digests of different bands are never in one bucket."""
    random = np.random.default_rng(4)
    table = random.integers(0, 90, (900, 5), np.uint64)
    table[::7] = random.integers(0, 2**63, table[::7].shape, np.uint64)
    table[1::3, 2] = 5  # a large bucket
    table[5, 0] = table[6, 1] = 1 << 50  # alone in each band
    members: dict[tuple[int, int], list[int]] = {}
    for (document, band), digest in np.ndenumerate(table):
        members.setdefault((band, int(digest)), []).append(document)
    wanted = [bucket for bucket in members.values() if len(bucket) > 1]
    calls: list[int] = []

    class Device(ReferenceBackend):
        def sizes(self) -> Sizes:
            return super().sizes()._replace(device=1)

        def collisions(self, digests: Array, ids: Array) -> Buckets:
            calls.append(len(ids))
            if len(ids) > memory:
                raise DeviceMemoryError("too many at once")
            return OPS.collisions(digests, ids)

    steps, large = list[int](), list[Memberships]()
    small = find_buckets(columns(table), Device(), steps.append, large.append)
    found = [small.ids[start:stop].tolist() for start, stop in pairwise(small.offset.tolist())]
    document, band, bucket = np.concatenate(large, axis=1)
    for one in dict.fromkeys(zip(band.tolist(), bucket.tolist(), strict=True)):
        found.append(document[(band == one[0]) & (bucket == one[1])].tolist())
    assert sorted(found) == sorted(wanted)
    assert set(band.tolist()) == {2} and sum(steps) == 5
    assert calls == ([4500] if memory == 4500 else [4500, *[900] * 5])


@given(
    st.lists(st.integers(0, 2**16 + 1), max_size=30),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30),
    st.sampled_from([1, 2**33]),
)
@settings(max_examples=30)
def test_orders_equal_sorted(numbers: list[int], pairs: list[tuple[int, int]], scale: int) -> None:
    """The numbers are small or large, alone or in two columns."""
    expected = sorted(range(len(numbers)), key=numbers.__getitem__)
    assert radix_order(np.array(numbers, np.int64), max(numbers, default=0) + 1).tolist() == expected
    i, j = np.array(pairs, np.int64).T * scale
    for order in (lexicographic_order, pair_order):
        assert order(i, j).tolist() == sorted(range(len(pairs)), key=pairs.__getitem__)


# --- rows of unequal length

lists = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=5), max_size=8)


@given(st.lists(lists, min_size=1, max_size=4), st.sampled_from([1, ragged.LONG_ROW]), st.integers(0, 3), st.data())
def test_rows_are_joined_and_chosen(parts: list[list[list[int]]], times: int, before: int, data: st.DataObject) -> None:
    """Long rows are copied in another way than short ones."""
    parts = [[row * times for row in part] for part in parts]
    rows = [row for part in parts for row in part]
    joined = ragged.concat_rows([table(part, before) for part in parts])
    assert lists_of(joined) == rows
    which = data.draw(st.lists(st.integers(0, len(rows) - 1)) if rows else st.just([]))
    found = ragged.select_rows(table(rows, before), np.array(which, np.int64))
    assert lists_of(found) == [rows[row] for row in which] and found.offset[0] == 0


@given(st.lists(st.lists(st.binary(max_size=5), max_size=4), min_size=1, max_size=4), st.integers(0, 3), st.data())
def test_text_parts_act_as_one_batch(parts: list[list[bytes]], before: int, data: st.DataObject) -> None:
    wanted = [text for part in parts for text in part]
    batch = ragged.TextParts([batch_of(part, b"#" * before, b"#") for part in parts])
    assert len(batch) == len(wanted) and b"".join(map(np.ndarray.tobytes, batch.pieces())) == b"".join(wanted)
    start = data.draw(st.integers(0, len(wanted)))
    stop = data.draw(st.integers(start, len(wanted)))
    assert documents_of(batch.slice(start, stop)) == wanted[start:stop]
    assert documents_of(batch.moved(np.copy)) == documents_of(batch) == wanted


@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.one_of(st.none(), st.integers(1, 4)), st.integers(0, 3))
def test_cuts_are_as_long_as_allowed(sizes: list[int], most: int, longest: int | None, before: int) -> None:
    found = list(ragged.row_ranges(ragged.offsets(sizes) + before, most, longest))
    assert [row for start, stop in found for row in range(start, stop)] == list(range(len(sizes)))
    for start, stop in found:
        assert stop - start == 1 or (sum(sizes[start:stop]) <= most and stop - start <= (longest or len(sizes)))
        if stop < len(sizes):  # as many rows as there may be
            assert stop - start == longest or sum(sizes[start : stop + 1]) > most


def test_cuts_do_not_copy_narrow_offsets() -> None:
    """Arrow's string offsets have 32 bits. Each cut copied all of them to 64 bits."""
    rows = 1 << 20
    offset = np.arange(rows + 1, dtype=np.int32) * 2047
    with at_most(1 << 20):
        found = list(ragged.row_ranges(offset, 1 << 20, 1 << 16))
    assert found == list(ragged.row_ranges(offset.astype(np.int64), 1 << 20, 1 << 16))
    assert list(ragged.row_ranges(offset[-3:], (1 << 31) - 1, 1)) == [(0, 1), (1, 2)]  # the sum is beyond 32 bits


@given(st.lists(st.lists(st.integers(-3, 30), max_size=20)))
def test_parts_are_merged_into_their_different_values(parts: list[list[int]]) -> None:
    found = ragged.merged_distinct(np.array(part, np.int64) for part in parts)
    assert found.dtype == np.int64 and found.tolist() == sorted(set().union(*parts))


@given(st.lists(st.integers(0, 4)))
def test_runs_are_counted_from_their_first_row(counts: list[int]) -> None:
    wanted = [place for count in counts for place in range(count)]
    assert ragged.run_places(np.array(counts, np.int64)).tolist() == wanted
    values = np.repeat(np.arange(len(counts)), counts)
    assert ragged.first_of_runs(values).tolist() == [place == 0 for place in wanted]
