"""Rows of unequal length, end to end: their offsets, a choice of rows, and several parts as one.

The functions take NumPy arrays, and CuPy arrays where their docstring says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers, Rows, TextBatch, Values
from gpulsh.cached import cached_value

SomeRows = TypeVar("SomeRows", bound=Rows)
SomeArray = TypeVar("SomeArray")
Part = TypeVar("Part")

LONG_ROW = 256  # values, on average; a copy of each row takes less time than an index of all values, and less memory


def offsets(sizes: Array) -> Numbers:
    """int64 [n + 1]: the start of each of n rows, and the end of the last; takes a list, a NumPy or a CuPy array."""
    sizes = sizes if hasattr(sizes, "dtype") else np.asarray(sizes, np.int64)
    offset = np.zeros(len(sizes) + 1, np.int64, like=sizes)
    np.cumsum(sizes, dtype=np.int64, out=offset[1:])
    return offset


def row_of(starts: Numbers, places: Numbers) -> Numbers:
    """int64 [m]: the row that holds each of `places` [m], by the ascending starts of rows, of NumPy or CuPy.

    >>> row_of(np.array([0, 4, 6]), np.array([0, 5, 6]))
    array([0, 1, 2])
    """
    return np.searchsorted(starts, places, side="right") - 1


def first_of_runs(values: Array) -> Array:
    """bool [n]: whether a value differs from the one before it, for arrays of NumPy or CuPy."""
    first = np.ones_like(values, bool)
    first[1:] = values[1:] != values[:-1]
    return first


def last_of_runs(first: Array) -> Array:
    """bool [n]: the last of each run, where `first` [n] says which begin one.

    >>> last_of_runs(first_of_runs(np.array([7, 7, 9])))
    array([False,  True,  True])
    """
    return np.append(first[1:], first[:1])


def merge_ranges(row: Numbers, begin: Numbers, end: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Join the ranges [begin, end) of a row that overlap or touch; rows ascend [n each].

    Both `begin` and `end` ascend in each row.

    >>> merge_ranges(np.array([0, 0, 0, 1]), np.array([1, 3, 8, 2]), np.array([4, 6, 9, 3]))
    (array([0, 0, 1]), array([1, 8, 2]), array([6, 9, 3]))
    """
    first = first_of_runs(row)
    first[1:] |= begin[1:] > end[:-1]
    return row[first], begin[first], end[last_of_runs(first)]


def distinct(ascending: Array) -> Array:
    """The different values of an ascending array, of NumPy or CuPy."""
    return ascending[first_of_runs(ascending)]


def sorted_distinct(values: SomeArray) -> SomeArray:
    """The different values of an array of NumPy or CuPy, ascending.

    `numpy.unique` hashes integers since NumPy 2.3, in 10 to 60 times the time of a sort.
    """
    found: SomeArray = distinct(np.sort(cast("Array", values)))
    return found


def merged_distinct(parts: Iterable[Numbers]) -> Numbers:
    """The different values of all `parts`, ascending; holds these and as many more, or one part, at a time."""
    found, more = np.empty(0, np.int64), list[Numbers]()

    def merged() -> Numbers:  # a stable sort takes a sixth of the time where runs of values ascend already
        values: Numbers = distinct(np.sort(np.concatenate([found, *more]), kind="stable"))
        return values

    for part in parts:
        more.append(part)
        if sum(map(len, more)) > len(found):
            found, more = merged(), []
    return merged()


def bundles(parts: Iterable[Part], min_rows: int, rows: Callable[[Part], int]) -> Iterator[list[Part]]:
    """Lists of parts with `min_rows` rows or more together, the last one fewer. A list is emptied before the next."""
    held: list[Part] = []
    count = 0
    for part in parts:
        held.append(part)
        count += rows(part)
        if count >= min_rows:
            yield held
            held.clear()
            count = 0
    if count:
        yield held


def stable_order(values: Numbers) -> Numbers:
    """The stable `argsort` of int64 values [n], in a third of the time: words of a value and its place are sorted.

    >>> stable_order(np.array([30, 10, 30, 20])).tolist()
    [1, 3, 0, 2]
    """
    bits = len(values).bit_length()
    least = int(values.min(initial=0))
    if (int(values.max(initial=0)) - least).bit_length() + bits > 63:  # does not fit in a word
        return np.argsort(values, kind="stable")
    words = (values - least << bits) + np.arange(len(values))
    words.sort()
    found: Numbers = words & (1 << bits) - 1
    return found


def range_order(hashes: NDArray[np.uint64]) -> Numbers:
    """int64 [n]: the stable order of hashes by their upper 16 bits, which takes a radix sort."""
    return np.argsort((hashes >> np.uint64(48)).astype(np.uint16), kind="stable")


def hash_order(hashes: NDArray[np.uint64]) -> Numbers:
    """The stable `argsort` of hashes [n], in a sixth to a third of the time where their upper bits are uniform.

    >>> hash_order(np.array([9 << 60, 2, 9 << 60, 1 << 50], np.uint64)).tolist()
    [1, 3, 0, 2]
    """
    order = range_order(hashes)
    return order[np.argsort(hashes[order], kind="stable")]


def mask_of(rows: Values | Sequence[int], count: int) -> NDArray[np.bool_]:
    """bool [count]: True at `rows`."""
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask


def find_sorted(known: Values, wanted: Values) -> tuple[Numbers, Numbers]:
    """Which of `wanted` are in `known`, which ascends, and their places in it.

    >>> find_sorted(np.array([3, 5, 8]), np.array([8, 4, 3]))
    (array([0, 2]), array([2, 0]))
    """
    at: Numbers = known.searchsorted(wanted)
    if not len(known):
        return at[:0], at[:0]
    rows = (known.take(at, mode="clip") == wanted).nonzero()[0]  # in half the time of `flatnonzero` for a few
    return rows, at[rows]


def slice_between(ascending: Values, start: int, stop: int) -> slice:
    """Where the values of an ascending array are from `start` to before `stop`.

    >>> slice_between(np.array([3, 5, 8]), 4, 8)
    slice(1, 2, None)
    """
    return slice(*np.searchsorted(ascending, [start, stop]).tolist())


def slices_by_range(ascending: Numbers, bounds: Numbers) -> Iterator[tuple[int, slice]]:
    """The number of each range [bounds[i], bounds[i + 1]) that has values, and where they are.

    >>> list(slices_by_range(np.array([1, 3, 8]), np.array([0, 5, 6, 9])))
    [(0, slice(0, 2, None)), (2, slice(2, 3, None))]
    """
    ends = np.searchsorted(ascending, bounds)
    for number in np.flatnonzero(ends[1:] > ends[:-1]).tolist():
        yield number, slice(int(ends[number]), int(ends[number + 1]))


def find_equal_runs(known: Values, wanted: Values) -> tuple[Numbers, Numbers, Numbers]:
    """`find_sorted`, the places the first of equal values, and how often each value occurs.

    >>> find_equal_runs(np.array([3, 3, 5]), np.array([3, 4, 5]))
    (array([0, 2]), array([0, 2]), array([2, 1]))
    """
    rows, first = find_sorted(known, wanted)
    return rows, first, known.searchsorted(wanted[rows], side="right") - first


def run_bounds(values: Array) -> Iterator[tuple[int, int]]:
    """[start, stop) of each run of equal values [n]."""
    return pairwise([*np.flatnonzero(first_of_runs(values)).tolist(), len(values)])


def places_by_value(values: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each value, ascending, and its places.

    >>> [(value, places.tolist()) for value, places in places_by_value(np.array([7, 3, 7]))]
    [(3, [1]), (7, [0, 2])]
    """
    order = stable_order(values)
    for start, stop in run_bounds(values[order]):
        yield int(values[order[start]]), order[start:stop]


def run_places(counts: Numbers) -> Numbers:
    """0, 1, ... count - 1 for each count, end to end."""
    places: Numbers = expand_ranges(np.zeros_like(counts), counts)
    return places


def expand_ranges(begin: Array, size: Array) -> Array:
    """int64: begin, begin + 1, ... for each of `begin` [n], as many as its `size` [n], end to end.

    Takes and returns arrays of NumPy or CuPy.

    >>> expand_ranges(np.array([5, 3]), np.array([2, 3]))
    array([5, 6, 3, 4, 5])
    """
    if isinstance(begin, np.ndarray):
        starts = offsets(size)
        places = np.repeat(begin.astype(np.int64, copy=False) - starts[:-1], size)
        places += np.arange(len(places))
        return places
    some = size > 0  # CuPy repeats by counts on the host only
    begin, size = begin[some], size[some]
    starts = offsets(size)
    steps = np.empty(int(starts[-1]), np.int64, like=begin)  # CuPy's `ones` takes no `like`
    steps[:] = 1
    steps[starts[:-1]] = begin
    steps[starts[1:-1]] -= begin[:-1] + size[:-1] - 1
    return np.cumsum(steps)


def row_ranges(offset: NDArray[np.signedinteger], most: int, longest: int | None = None) -> Iterator[tuple[int, int]]:
    """[start, stop) ranges that cover all rows of `offset` [n + 1], each of at most `most` values and `longest` rows.

    One row alone may be larger than `most`.
    """
    count, start, last = len(offset) - 1, 0, int(offset[-1])
    if 0 < count <= (longest or count) and last - int(offset[0]) <= most:  # as for most queries: a search takes longer
        yield 0, count
        return
    while start < count:
        end = offset.dtype.type(min(int(offset[start]) + most, last))  # of another type, it would copy all of `offset`
        stop = int(np.searchsorted(offset, end, side="right")) - 1
        stop = min(max(stop, start + 1), start + longest if longest else count, count)
        yield start, stop
        start = stop


def select_rows(rows: SomeRows, which: Numbers) -> SomeRows:
    """The rows `which` [m], in that order, of NumPy or CuPy arrays; a view where they are consecutive."""
    if len(which) == 1 or (len(which) and bool((which[1:] == which[:-1] + 1).all())):
        offset = rows.offset[int(which[0]) : int(which[-1]) + 2]
        return rows.with_values(rows.values[int(offset[0]) : int(offset[-1])], offset - offset[0])
    begin, end = rows.offset[which], rows.offset[which + 1]
    offset = offsets(end - begin)
    if isinstance(rows.values, np.ndarray) and LONG_ROW * len(which) < int(offset[-1]):
        values = np.concatenate(
            [rows.values[start:stop] for start, stop in zip(begin.tolist(), end.tolist(), strict=True)]
        )
    else:
        values = rows.values[expand_ranges(begin, end - begin)]
    return rows.with_values(values, offset)


def total_size(rows: Rows) -> int:
    """The number of values of all rows, of NumPy or CuPy."""
    return int(rows.offset[-1] - rows.offset[0])


def own_values(rows: Rows) -> Array:
    """The values of all rows, of NumPy or CuPy; the array may hold others before and after them."""
    return rows.values[int(rows.offset[0]) : int(rows.offset[-1])]


def concat_rows(parts: Sequence[SomeRows]) -> SomeRows:
    """The rows of all parts, end to end, of NumPy or CuPy arrays; a single part itself."""
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([own_values(part) for part in parts])
    return parts[0].with_values(values, offsets(np.concatenate([part.lengths for part in parts])))


class TextParts(TextBatch):
    """Batches on the host as one. Their bytes are joined when `values` is used first.

    A caller that copies the bytes anyway, for example to a device, takes them from `parts`.
    """

    parts: Sequence[TextBatch]

    def __init__(self, parts: Sequence[TextBatch]) -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "offset", offsets(np.concatenate([part.lengths for part in parts])))

    @cached_value
    def values(self) -> NDArray[np.uint8]:
        """uint8 [bytes], read-only."""
        joined: NDArray[np.uint8] = np.concatenate(self.pieces())
        joined.flags.writeable = False  # so that all batches have one type for a compiler
        object.__setattr__(self, "parts", [TextBatch(joined, self.offset)])  # not to hold the bytes twice
        return joined

    def pieces(self) -> list[NDArray[np.uint8]]:
        """The bytes of each part, as views."""
        return [own_values(part) for part in self.parts]

    def with_values(self, values: Array, offset: Array) -> TextBatch:  # type: ignore[override]
        """A batch of one part."""
        return TextBatch(values, offset)


def concat_texts(parts: list[TextBatch]) -> TextBatch:
    """Batches on the host as one, joined when its values are used; a single one itself."""
    return parts[0] if len(parts) == 1 else TextParts(parts)


def counts_by_row(flags: Array, offset: Array) -> Array:
    """int64 [n]: the number of set `flags` of each row, of NumPy or CuPy arrays."""
    return np.diff(offsets(flags)[offset])
