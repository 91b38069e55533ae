"""Rows of unequal length, beside lists of lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpulsh import ragged
from tests.support.rows import lists_of, table
from tests.support.texts import batch_of, documents_of

lists = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=5), max_size=8)


@given(lists, st.integers(0, 3), st.data())
def test_chosen_rows(given: list[list[int]], before: int, data: st.DataObject) -> None:
    which = data.draw(st.lists(st.integers(0, len(given) - 1)) if given else st.just([]))
    found = ragged.chosen_rows(table(given, before), np.array(which, np.int64))
    assert lists_of(found) == [given[row] for row in which]
    assert found.offset[0] == 0


@given(st.lists(lists, min_size=1, max_size=4), st.integers(0, 3))
def test_several_end_to_end(parts: list[list[list[int]]], before: int) -> None:
    found = lists_of(ragged.end_to_end([table(part, before) for part in parts]))
    assert found == [row for part in parts for row in part]


@given(st.lists(st.lists(st.binary(max_size=5), max_size=4), min_size=1, max_size=4), st.integers(0, 3), st.data())
def test_parts_are_one_batch(parts: list[list[bytes]], before: int, data: st.DataObject) -> None:
    wanted = [text for part in parts for text in part]
    batch = ragged.TextParts([batch_of(part, b"#" * before, b"#") for part in parts])
    assert len(batch) == len(wanted) and b"".join(map(np.ndarray.tobytes, batch.pieces())) == b"".join(wanted)
    start = data.draw(st.integers(0, len(wanted)))
    stop = data.draw(st.integers(start, len(wanted)))
    assert documents_of(batch.slice(start, stop)) == wanted[start:stop]
    assert documents_of(batch.moved(np.copy)) == documents_of(batch) == wanted


@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.one_of(st.none(), st.integers(1, 4)), st.integers(0, 3))
def test_cuts(sizes: list[int], most: int, longest: int | None, before: int) -> None:
    found = list(ragged.cuts(ragged.offsets(sizes) + before, most, longest))
    assert [row for start, stop in found for row in range(start, stop)] == list(range(len(sizes)))
    for start, stop in found:
        assert stop - start == 1 or (sum(sizes[start:stop]) <= most and stop - start <= (longest or len(sizes)))
        if stop < len(sizes):  # as many rows as there may be
            assert stop - start == longest or sum(sizes[start : stop + 1]) > most


@given(st.lists(st.integers(0, 4)))
def test_runs(counts: list[int]) -> None:
    wanted = [place for count in counts for place in range(count)]
    assert ragged.within_runs(np.array(counts, np.int64)).tolist() == wanted
    values = np.repeat(np.arange(len(counts)), counts)
    assert ragged.first_of_runs(values).tolist() == [place == 0 for place in wanted]
