"""Giants: large documents, fingerprinted a piece of text after another, so that little memory is needed beside the
text.

The last tokens of a piece are carried to the next, so every shingle is made once. A token that is longer than a piece
is summed in place.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu.fingerprinting.documents import fingerprint_piece
from gpulsh.backends.cpu.fingerprinting.keys import kernel_keys, kernel_table
from gpulsh.backends.cpu.fingerprinting.words import RUN_WORDS
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.memory import Room, Scratch, own_pages
from gpulsh.backends.cpu.threads import CHUNK_BYTES, LONGEST_CHUNK, Threads, by_weight
from gpulsh.backends.cpu.unique import unique_rows
from gpulsh.backends.cpu.vectors import LANES
from gpulsh.backends.parts import in_part
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys

GIANT_BYTES = 1 << 20  # documents beyond are giants
MOST_ALONE = 4 << 20  # of texts that one thread takes at once
PIECE_BYTES = 1 << 18  # text, tokens and fingerprints of a piece stay in the second-level cache

_scratch = Scratch()


def text_chunks(offset: NDArray[np.int64], threads: Threads) -> list[tuple[int, int]]:
    """`by_weight`, with giants in chunks of their own.

    Chunks are long, because Python's work for each takes time, but there are several a thread, so threads wait little.
    """
    several, chunks = int(offset[-1] - offset[0]) // (2 * threads.count), []
    for start, stop in by_weight(offset, min(max(several, CHUNK_BYTES), LONGEST_CHUNK)):
        if stop - start > 1 and offset[stop] - offset[stop - 1] > GIANT_BYTES:
            chunks += [(start, stop - 1), (stop - 1, stop)]
        else:
            chunks.append((start, stop))
    return chunks


def set_chunks(offset: NDArray[np.int64], threads: Threads) -> list[tuple[int, int]]:
    """`text_chunks`, or one chunk of few bytes if no thread could help: its sets need no joining."""
    few = len(offset) > 1 and int(offset[-1] - offset[0]) <= MOST_ALONE and int(np.diff(offset).max()) <= GIANT_BYTES
    return [(0, len(offset) - 1)] if few and threads.alone() else text_chunks(offset, threads)


def is_giant(text: TextBatch, start: int, stop: int) -> bool:
    """Whether documents [start, stop) are one giant."""
    return stop - start == 1 and int(text.offset[stop] - text.offset[start]) > GIANT_BYTES


def one_row(values: NDArray[np.uint64]) -> Fingerprints:
    """Fingerprints of one document."""
    return Fingerprints(values, np.array([0, len(values)]))


def giant_pieces(
    text: TextBatch,
    row: int,
    shingling: Shingling,
    keys: EvidenceKeys | None = None,
    *,
    proof: EvidenceKeys | None = None,
    exact: NDArray[np.uint64] | None = None,
) -> Iterator[NDArray[np.uint64]]:
    """The fingerprints of document `row` in text order, repeats kept, a piece of text after another.

    They stay in the thread's scratch memory until the next piece, and are public or under `keys`. At the end `exact`
    [2] is the exact hash under `proof`.
    """
    begin, end = int(text.offset[row]), int(text.offset[row + 1])
    size = shingling.size
    state, carried = np.zeros(4, np.int64), np.empty(size, np.uint64)
    sums = np.empty(0, np.uint64) if exact is None else exact
    sums[:] = 0
    # A token a byte, a space before the first, and the carried tokens. The fingerprints take their place, a vector
    # earlier, so that no token is overwritten unread.
    values = _scratch.take("piece", LANES + PIECE_BYTES + 1 + size - 1 + LANES)
    packed = _scratch.take("packed", PIECE_BYTES + 1 + LANES)
    run = _scratch.take("run", RUN_WORDS)
    table, hashing, proving = kernel_table(shingling.reading), kernel_keys(keys), kernel_keys(proof)
    while state[0] < end - begin:
        made = fingerprint_piece(
            text.values.ctypes.data + begin,
            table.room(text) - begin,
            end - begin,
            PIECE_BYTES,
            shingling.unit == "word",
            size,
            *table.at,
            *(hashing.address, hashing.secret, proving.address, proving.secret),
            state,
            sums,
            carried,
            *(values[LANES:].ctypes.data, packed.ctypes.data, values.ctypes.data, run.ctypes.data),
        )
        yield values[:made]


class GrowingSet:
    """The set of fingerprints that come in pieces: ascending runs, each shorter than the one before.

    Runs of like length are merged, so values are moved few times. It holds at most 16 bytes a value, while two halves
    are merged.
    """

    def __init__(self, room: Room) -> None:
        self._runs: list[NDArray[np.uint64]] = []
        self._room, self._taken = room, 0

    def add(self, values: NDArray[np.uint64]) -> None:
        """Add a copy of a piece. Raises DeviceMemoryError if there are too many values."""
        self._runs.append(unique_rows(one_row(values)).values.copy())
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._merge()
        held = sum(map(len, self._runs))
        self._room.take(held - self._taken)
        self._taken = held

    def values(self) -> NDArray[np.uint64]:
        """All of them, ascending."""
        while len(self._runs) > 1:
            self._merge()
        return self._runs[0] if self._runs else np.empty(0, np.uint64)

    def _merge(self) -> None:
        right, left = self._runs.pop(), self._runs.pop()
        merged = own_pages(len(left) + len(right))
        self._runs.append(merged[: _union(left, right, merged)])


@kernel
def _union(left, right, out):
    """The values of two ascending rows without repeats, likewise; how many they are."""
    i, j, made = 0, 0, 0
    while i < left.size and j < right.size:
        x, y = left[i], right[j]
        out[made] = min(x, y)
        i += x <= y
        j += y <= x
        made += 1
    for value in left[i:]:
        out[made] = value
        made += 1
    for value in right[j:]:
        out[made] = value
        made += 1
    return made


def giant_set(
    text: TextBatch,
    row: int,
    shingling: Shingling,
    room: Room,
    keys: EvidenceKeys | None,
    part: int = 0,
    parts: int = 1,
) -> Fingerprints:
    """The fingerprints of document `row` in part `part` of `parts` ranges, ascending and without repeats."""
    found = GrowingSet(room)
    for values in giant_pieces(text, row, shingling, keys):
        found.add(values if parts == 1 else values[in_part(values, part, parts)])
    return one_row(found.values())
