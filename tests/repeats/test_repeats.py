"""Equal windows: `gpulsh.backends.repeats.repeats` beside a dict; and marks of windows that come piece by piece."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.backends import repeats as module
from gpulsh.backends.repeats import FAR, SpanMarker, repeats
from gpulsh.errors import BackendError

# Few values, whose cells are the same: any two may share one hash, both, or only their cell.
hashes = st.tuples(st.sampled_from([0, 1, 1 << 40, 1 << 63, 2**64 - 1]), st.sampled_from([0, 3, 2**64 - 1]))


def naive(pairs: list[tuple[int, int]], place: list[int], equal: list[int] | None = None) -> list[tuple[int, int, int]]:
    members: dict[tuple[int, int], list[int]] = {}
    for pair, at in zip(pairs, place, strict=True):
        members.setdefault(pair, []).append(at)
    stands = dict(zip(place, equal or [1] * len(place), strict=True))
    numbers = {of[0]: sum(stands[at] for at in of) for of in members.values()}
    return sorted((at, of[0], numbers[of[0]]) for of in members.values() if numbers[of[0]] > 1 for at in of)


def found(pairs: list[tuple[int, int]], place: list[int], equal: list[int] | None = None) -> list[tuple[int, ...]]:
    proposed, proven = (np.array([pair[side] for pair in pairs], np.uint64) for side in (0, 1))
    stands = None if equal is None else np.array(equal, np.int64)
    columns = repeats(proposed, proven, np.array(place, np.int64), stands)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(st.lists(hashes, max_size=120), st.integers(0, 1 << 40))
def test_windows_are_equal_where_both_hashes_are(pairs: list[tuple[int, int]], start: int) -> None:
    place = [start + 2 * number for number in range(len(pairs))]
    assert found(pairs, place) == naive(pairs, place)


@given(st.lists(st.tuples(hashes, st.integers(1, 3) | st.just(1 << 40)), max_size=120))
def test_windows_that_stand_for_several(given: list[tuple[tuple[int, int], int]]) -> None:
    pairs, equal, place = [pair for pair, _ in given], [number for _, number in given], list(range(len(given)))
    assert found(pairs, place, equal) == naive(pairs, place, equal)


@given(st.data())
def test_stretches_that_repeat_again_and_again(data: st.DataObject) -> None:
    source = [(7 * number, number) for number in range(40)]
    cuts = data.draw(st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=9))
    pairs = source + [window for start, stop in cuts for window in source[start:stop]]
    place = list(range(len(pairs)))
    assert found(pairs, place) == naive(pairs, place)


def test_more_windows_than_a_cell_can_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WINDOWS", 3)
    assert found([(1, 1)] * 2, [0, 1]) == [(0, 0, 2), (1, 0, 2)]
    with pytest.raises(BackendError, match="3 windows may repeat, and 2 can be compared at once"):
        found([(1, 1)] * 3, [0, 1, 2])


@given(
    st.lists(st.integers(0, 60), unique=True).map(sorted), st.integers(1, 8), st.booleans(), st.booleans(), st.data()
)
def test_marks_do_not_depend_on_pieces(
    place: list[int], size: int, stay: bool, mark: bool, data: st.DataObject
) -> None:
    several = st.tuples(st.integers(0, 4), st.integers(2, 3))
    windows = [(at, max(at - back, 0), often) for at in place for back, often in [data.draw(several)]]
    columns = np.array(windows, np.int64).reshape(-1, 3).T
    wanted = SpanMarker(size, stay, mark).add(*columns, FAR).tolist()
    cuts = sorted(data.draw(st.lists(st.integers(0, 70), max_size=5)))
    marker, found, low = SpanMarker(size, stay, mark), list[list[int]](), 0
    for until in [*cuts, 100]:
        here = columns[:, slice(*np.searchsorted(columns[0], [low, until]))]
        found[-1:] = marker.add(*here, until).tolist()
        low = until
    assert found == wanted
