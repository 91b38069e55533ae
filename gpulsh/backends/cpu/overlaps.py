"""text_overlaps: each document looked up in a table of what a few others have; only what is not there is sorted.

Of a near-copy that is a few fingerprints, so that most of `unique` and `intersect` is spared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu.chunks import Threads
from gpulsh.backends.cpu.giants import giant_set, is_giant, text_chunks
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.room import Room
from gpulsh.backends.cpu.shingle import shingle_rows
from gpulsh.backends.cpu.unique import unique_rows
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys

SPARSE_BITS = 3  # of a table with so many times as many cells as values, which is looked at in one place as a rule

_U = np.uint64
_ONE, _GREATEST = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def _overlaps(values, offset, known, starts, members, seen, found, overlaps, sizes, ends):
    """Fill `overlaps` [rows, k] with how many values a row has of each of `members` [k, d], and `sizes` with how many
    of any; the others move to the front of `values`, row after row, and end at `ends`.

    `known` [d + 1] ascend, and the last one is the greatest there is; those with the upper bits of a value begin where
    `starts` [2^b] says. `seen` [d], -1 before, and `found` [d + 1] are room.
    """
    bits = 0
    while (1 << bits) < starts.size:
        bits += 1
    shift, written = _U(64 - bits), 0
    for row in range(offset.size - 1):
        count = 0
        for value in values[offset[row] : offset[row + 1]]:
            place = _U(starts[value >> shift])
            while known[place] < value:
                place += _ONE
            if known[place] == value and place < _U(seen.size):
                found[count] = place
                count += seen[place] != row
                seen[place] = row
            else:
                values[written] = value
                written += 1
        for column in range(members.shape[0]):
            total, own = 0, members[column]
            for i in range(count):
                total += own[found[i]]
            overlaps[row, column] = total
        sizes[row] = count
        ends[row] = written


def text_overlaps(
    text: TextBatch,
    shingling: Shingling,
    known: Fingerprints,
    threads: Threads,
    left: Room,
    keys: EvidenceKeys | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    overlaps, sizes = np.empty((len(text), len(known)), np.int64), np.empty(len(text), np.int64)
    distinct, which = np.unique(known.values[known.offset[0] : known.offset[-1]], return_inverse=True)
    members = np.zeros((len(known), len(distinct)), np.uint8)
    members[np.repeat(np.arange(len(known)), known.lengths), which] = 1
    bits = len(distinct).bit_length() + SPARSE_BITS
    starts = np.searchsorted(distinct, np.arange(1 << bits, dtype=np.uint64) << _U(64 - bits)).astype(np.uint32)
    up_to_greatest = np.append(distinct, _GREATEST)

    def work(start: int, stop: int) -> None:
        giant = is_giant(text, start, stop)
        if giant:
            rows = giant_set(text, start, shingling, left, keys)
        else:
            rows, _ = shingle_rows(text, start, stop, shingling, keys)
        offset, seen = np.zeros(stop - start + 1, np.int64), np.full(len(distinct), -1)
        room, found = (seen, np.empty(len(distinct) + 1, np.uint64)), (overlaps[start:stop], sizes[start:stop])
        _overlaps(rows.values, rows.offset, up_to_greatest, starts, members, *room, *found, offset[1:])
        others = Fingerprints(rows.values[: offset[-1]], offset)
        sizes[start:stop] += others.lengths if giant else unique_rows(others).lengths

    threads.map(work, text_chunks(text.offset, threads))
    return overlaps, sizes
