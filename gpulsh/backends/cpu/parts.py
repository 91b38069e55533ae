"""shingle_part: the fingerprints of a range, chosen before they are made unique."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu.chunks import CHUNK_BYTES, Threads, joined
from gpulsh.backends.cpu.giants import giant_set, is_giant, text_chunks
from gpulsh.backends.cpu.room import Room
from gpulsh.backends.cpu.shingle import one_row, shingle_rows
from gpulsh.backends.cpu.unique import unique_rows
from gpulsh.backends.parts import in_part
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys


def shingle_part(
    text: TextBatch,
    shingling: Shingling,
    part: int,
    parts: int,
    keys: EvidenceKeys | None,
    threads: Threads,
    room: Room,
) -> Fingerprints:
    chunks = text_chunks(text.offset, CHUNK_BYTES)

    def work(start: int, stop: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        if is_giant(text, start, stop):
            return one_row(giant_set(text, start, shingling, room, keys, part, parts))
        values, ends, _ = shingle_rows(text, start, stop, shingling, keys)
        inside = np.flatnonzero(in_part(values, part, parts))
        return unique_rows(values[inside], np.concatenate([np.zeros(1, np.int64), np.searchsorted(inside, ends)]))

    return joined(chunks, threads.map(work, chunks), threads)
