"""shingle_part: the fingerprints of a range, chosen before they are made unique."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu.chunks import CHUNK_BYTES, Threads
from gpulsh.backends.cpu.giants import giant_set, is_giant, text_chunks
from gpulsh.backends.cpu.room import Room
from gpulsh.backends.cpu.shingle import shingle_rows
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
    def work(start: int, stop: int) -> Fingerprints:
        if is_giant(text, start, stop):
            return giant_set(text, start, shingling, room, keys, part, parts)
        rows, _ = shingle_rows(text, start, stop, shingling, keys)
        inside = np.flatnonzero(in_part(rows.values, part, parts))
        return unique_rows(Fingerprints(rows.values[inside], np.searchsorted(inside, rows.offset)))

    return threads.rows(work, text_chunks(text.offset, CHUNK_BYTES))
