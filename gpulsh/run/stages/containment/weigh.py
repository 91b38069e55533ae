"""weigh: a range of fingerprints; how many documents have those of each slot, in WEIGHTS.

A slot is the upper bits of a fingerprint. Any weights give an exact join, good ones a fast one: where slots hold more
than 255 fingerprints, frequent ones are no longer told from others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpulsh.run.job.layout import Layout
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.postings import Participants, postings_of
from gpulsh.run.records.tables import POSTINGS, WEIGHTS, Weights

FEWEST_BITS, MOST_BITS = 10, 26  # of a slot
TASK_BITS = 20  # of which so many are counted in one task


def weight_tasks(shingles: int) -> tuple[int, int]:
    """The bits of a slot for so many shingles, and into how many ranges the slots are cut."""
    bits = int(np.clip(shingles.bit_length(), FEWEST_BITS, MOST_BITS))
    return bits, 1 << max(bits - TASK_BITS, 0)


def weigh(place: Workplace, layout: Layout, copies: Sequence[Path], bits: int, part: int, parts: int) -> Made:
    """Count the documents of one of `parts` equal ranges of slots, each of so many bits; `copies` do not count."""
    slots = (1 << bits) // parts
    counts, first = np.zeros(slots, np.int64), np.uint64(part * slots)
    participants = Participants(place.folder, layout, copies)
    for fingerprints, _ in postings_of(POSTINGS, place.folder, layout, participants, part, parts):
        np.add.at(counts, ((fingerprints >> np.uint64(64 - bits)) - first).astype(np.int64), 1)
    place.progress.advance(1)
    return Made(WEIGHTS.write(place.folder, part, Weights(np.minimum(counts, 255).astype(np.uint8))), {"amount": 1})
