"""How much of a set `text_prefixes` takes, for arrays of NumPy or CuPy; the reference has a way of its own."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.ragged import counted


def least_share(threshold: float) -> float:
    """The share to cut prefixes by, a little low: a prefix one too long loses nothing, one too short would."""
    return threshold * (1 - 1e-12)


def prefix_lengths(sizes: Array, share: float) -> Array:
    """int64 [n]: of sets of `sizes` [n], size - ceil(share * size) + 1, and no more than there are."""
    return np.minimum(sizes, sizes - np.ceil(sizes * share).astype(np.int64) + 1)


def lengths_with_rare(sets: Fingerprints, counts: Array, rare: int, share: float) -> Array:
    """int64 [n]: the same, or how many of a set are counted less than `rare`, where these are more."""
    bits, start = len(counts).bit_length() - 1, sets.offset[:1]
    values = sets.values[int(start[0]) : int(sets.offset[-1])]
    slots = (values >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros_like(values, np.int64)
    counted_less = counted(counts[slots] < rare, sets.offset - start)
    return np.maximum(prefix_lengths(sets.lengths, share), counted_less)
