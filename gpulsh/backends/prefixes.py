"""How many fingerprints of a set `text_prefixes` takes, for arrays of NumPy or CuPy; the reference has its own."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.ragged import counted


def least_share(threshold: float) -> float:
    """The share that cuts prefixes, a little low: a prefix that is one too long loses nothing, a short one would."""
    return threshold * (1 - 1e-12)


def prefix_lengths(sizes: Array, share: float) -> Array:
    """int64 [n]: size - ceil(share * size) + 1 for each set of `sizes` [n], at most its size."""
    return np.minimum(sizes, sizes - np.ceil(sizes * share).astype(np.int64) + 1)


def lengths_with_rare(sets: Fingerprints, counts: Array, rare: int, share: float) -> Array:
    """int64 [n]: `prefix_lengths`, or how many fingerprints have a count below `rare` where these are more."""
    bits, start = len(counts).bit_length() - 1, sets.offset[:1]
    values = sets.values[int(start[0]) : int(sets.offset[-1])]
    slots = (values >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros_like(values, np.int64)
    counted_less = counted(counts[slots] < rare, sets.offset - start)
    return np.maximum(prefix_lengths(sets.lengths, share), counted_less)
