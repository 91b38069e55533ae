"""unique: each row sorted by one distribution into as many cells as it has values, since fingerprints are uniform."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu.chunks import Threads, by_weight, joined
from gpulsh.backends.cpu.kernel import kernel

CHUNK_SHINGLES = 1 << 16
CELL = 24  # a longer cell is sorted by comparison: repeats of few shingles, or values that are no hashes

_U = np.uint64


@kernel
def _unique_rows(values, offset, out, ends):
    longest = 0
    for row in range(offset.size - 1):
        longest = max(longest, offset[row + 1] - offset[row])
    cells = np.empty(2 * longest + 3, np.int64)
    placed = np.empty(longest, np.uint64)
    written = 0
    for row in range(offset.size - 1):
        source = values[offset[row] : offset[row + 1]]
        count = source.size
        bits = 1
        while (1 << bits) < count:
            bits += 1
        shift = _U(64 - bits)
        cells[: (1 << bits) + 1] = 0
        for value in source:
            cells[np.int64(value >> shift) + 1] += 1
        for cell in range(1 << bits):
            cells[cell + 1] += cells[cell]
        for value in source:
            cell = np.int64(value >> shift)
            placed[cells[cell]] = value
            cells[cell] += 1  # cells[c] ends as the end of cell c
        begin = 0
        for cell in range(1 << bits):
            end = cells[cell]
            if end - begin > CELL:
                placed[begin:end] = np.sort(placed[begin:end])
            else:
                for i in range(begin + 1, end):
                    value = placed[i]
                    j = i
                    while j > begin and placed[j - 1] > value:
                        placed[j] = placed[j - 1]
                        j -= 1
                    placed[j] = value
            begin = end
        for i in range(count):
            if i == 0 or placed[i] != placed[i - 1]:
                out[written] = placed[i]
                written += 1
        ends[row] = written


def unique_rows(values: NDArray[np.uint64], offset: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """(values, end positions [n]) of the rows `offset` [n + 1] of `values`, sorted and without repeats."""
    out = np.empty(offset[-1] - offset[0], np.uint64)
    ends = np.empty(len(offset) - 1, np.int64)
    _unique_rows(values, offset, out, ends)
    return out[: ends[-1] if len(ends) else 0], ends


def unique(fingerprints: Fingerprints, threads: Threads) -> Fingerprints:
    values, offset = np.ascontiguousarray(fingerprints.values), np.ascontiguousarray(fingerprints.offset)
    chunks = by_weight(offset, CHUNK_SHINGLES)
    return joined(
        chunks, threads.map(lambda start, stop: unique_rows(values, offset[start : stop + 1]), chunks), threads
    )
