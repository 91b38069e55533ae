"""shingle_part: the fingerprints of a range, out of the whole sets."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu.chunks import Threads
from gpulsh.backends.cpu.shingle import shingle_sets
from gpulsh.backends.parts import part_range
from gpulsh.params import Shingling


def shingle_part(text: TextBatch, shingling: Shingling, part: int, parts: int, threads: Threads) -> Fingerprints:
    sets = shingle_sets(text, shingling, threads)
    first, last = map(np.uint64, part_range(part, parts))
    inside = (sets.values >= first) & (sets.values <= last)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(inside, dtype=np.int64)])
    return Fingerprints(sets.values[inside], before[sets.offset])
