"""shingle_part: the fingerprints of a range, chosen before they are made unique."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu.chunks import Threads, by_weight, joined
from gpulsh.backends.cpu.shingle import CHUNK_BYTES, shingle_rows
from gpulsh.backends.cpu.unique import unique_rows
from gpulsh.backends.parts import in_part
from gpulsh.params import Shingling


def shingle_part(text: TextBatch, shingling: Shingling, part: int, parts: int, threads: Threads) -> Fingerprints:
    chunks = by_weight(text.offset, CHUNK_BYTES)

    def work(start: int, stop: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        values, ends, _ = shingle_rows(text, start, stop, shingling)
        inside = np.flatnonzero(in_part(values, part, parts))
        chosen = values[inside]
        del values  # of a giant as large as its text
        return unique_rows(chosen, np.concatenate([np.zeros(1, np.int64), np.searchsorted(inside, ends)]))

    return joined(chunks, threads.map(work, chunks), threads)
