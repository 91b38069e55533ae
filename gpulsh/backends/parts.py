"""Work in as few parts as memory allows: 64-bit values in equal ranges, items in halves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TypeVar

import numpy as np

from gpulsh.arrays import Array, Fingerprints, TextBatch
from gpulsh.backends.protocol import Result
from gpulsh.errors import DeviceMemoryError
from gpulsh.ragged import distinct

Items = TypeVar("Items", bound=Sized)

MAX_PARTS = 1 << 16  # ranges of fingerprints a pass


def part_range(part: int, parts: int) -> tuple[int, int]:
    """The first and last x below 2^64 with (x * parts) >> 64 == part: no array library has 128-bit products.

    >>> [tuple(map(hex, part_range(part, 3))) for part in (0, 2)]
    [('0x0', '0x5555555555555555'), ('0xaaaaaaaaaaaaaaab', '0xffffffffffffffff')]
    """
    return -(-(part << 64) // parts), -(-((part + 1) << 64) // parts) - 1


def in_part(values: Array, part: int, parts: int) -> Array:
    """bool [n]: whether uint64 values [n], from an array library, are in part `part` of `parts`."""
    first, last = map(np.uint64, part_range(part, parts))
    return (values >= first) & (values <= last)


def rows_in_part(rows: Fingerprints, part: int, parts: int) -> Fingerprints:
    """The fingerprints of each row that are in part `part` of `parts`, of NumPy or CuPy arrays."""
    inside = np.flatnonzero(in_part(rows.values, part, parts))
    return Fingerprints(rows.values[inside], np.searchsorted(inside, rows.offset))


def union_of(pieces: Iterable[Array], take: Callable[[int], None] | None = None) -> Array:
    """uint64: the different values of one or more pieces, of NumPy or CuPy, ascending.

    Pieces are held until they are as long as the values before them, so values are sorted few times. That takes 17
    bytes for each value. `take` gets the number of values that are held from then on, negative if they become fewer.
    """
    runs: list[Array] = []  # the values held, then pieces
    taken = 0
    for piece in pieces:
        runs.append(piece)
        del piece  # or it would stay through the sort
        if len(runs) == 1 or sum(map(len, runs[1:])) >= len(runs[0]):
            _merge(runs)
        if take is not None:
            before, taken = taken, sum(map(len, runs))
            take(taken - before)
    if len(runs) > 1:
        _merge(runs)
    return runs[0]


def _merge(runs: list[Array]) -> None:
    """Make one run of ascending values of all; they are released before the sort."""
    values = np.concatenate(runs)
    runs.clear()
    values.sort()
    runs.append(distinct(values))


def run_in_fitting_parts(work: Callable[[int], Result], parts: int, most: int = MAX_PARTS) -> tuple[Result, int]:
    """`work(parts)` and its number of parts, which doubles while device memory does not suffice.

    Raises DeviceMemoryError if `most` parts are not enough.
    """
    while True:
        try:
            return work(parts), parts
        except DeviceMemoryError:
            if parts >= most:
                raise
            parts *= 2


def run_in_fitting_halves(
    items: Items,
    work: Callable[[Items], Result],
    halves: Callable[[Items], Sequence[Items]],
    alone: Callable[[Items], Result] | None = None,
) -> Iterator[tuple[Items, Result]]:
    """(some of `items`, `work` of them), in order; items are halved while device memory does not suffice.

    One item that does not fit goes to `alone`. Raises DeviceMemoryError without `alone`.
    """
    try:
        yield items, work(items)
        return
    except DeviceMemoryError:
        if len(items) < 2 and alone is None:
            raise
    # The error is gone here, and with it all arrays of the attempt.
    if alone is not None and len(items) < 2:
        yield items, alone(items)
        return
    for half in halves(items):
        yield from run_in_fitting_halves(half, work, halves, alone)


def halves_of_batch(batch: TextBatch) -> Sequence[TextBatch]:
    """Two or more documents in halves of about equal bytes, each with a document."""
    offset = batch.offset.get() if hasattr(batch.offset, "get") else batch.offset
    middle = int(np.searchsorted(offset, (int(offset[0]) + int(offset[-1])) // 2, side="right")) - 1
    middle = min(max(middle, 1), len(batch) - 1)
    return batch.slice(0, middle), batch.slice(middle, len(batch))
