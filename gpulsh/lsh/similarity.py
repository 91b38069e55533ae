"""Similarities of given pairs of documents: exact from fingerprints, estimated from signatures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Signatures, WeightedFingerprints
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_type
from gpulsh.lsh.pairs import ratio
from gpulsh.ragged import expand_ranges, offsets, row_ranges
from gpulsh.sketch.base import checked_pairs, estimates

AT_ONCE = 1 << 20  # weights looked up at once
SMALLEST_FLOAT = 2.0**-1074  # above 0


def jaccard(
    sketches: Fingerprints | WeightedFingerprints | Signatures,
    pairs: Array,
    *,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Array:
    """Jaccard similarity of each pair, float64 [m]: exact from Fingerprints, the estimate from Signatures.

    From WeightedFingerprints it is the weighted similarity, sum(min) / sum(max). Sums are float64, in ascending order
    of the fingerprints, so every backend gives the same bits.

    `pairs` int64 [m, 2] are row numbers. An empty document has similarity 0 with every document. The estimate is the
    share of equal signature values, of standard deviation sqrt(J (1 - J) / num_perm). Fingerprints of `gpulsh.shingle`
    are public hashes, scheme 1: exact unless the author of a text made it collide. `deduplicate` decides by
    fingerprints under a secret instead. Raises ParameterError if `pairs` name no rows of them.

    >>> from gpulsh.text.documents import shingle
    >>> fingerprints = shingle(["a b c d e f", "a b c d e g", ""], backend="cpu")
    >>> jaccard(fingerprints, [[0, 1], [0, 2]], backend="cpu")
    array([0.33333333, 0.        ])
    """
    check_type("sketches", sketches, Fingerprints, WeightedFingerprints, Signatures)
    ops = select_backend(backend, threads=threads)
    rows = checked_pairs(pairs, len(sketches), ops)
    if isinstance(sketches, Signatures):
        return estimates(ops.asarray(sketches.values), rows)
    if isinstance(sketches, WeightedFingerprints):
        with ops.use_device():
            weighted = sketches.moved(ops.asarray)
            least, greatest = ops.weighted_overlap(rows, weighted)
            over = np.flatnonzero(greatest == np.inf)
            if len(over):  # sums of weights that are all finite
                smaller = replace(weighted, weight=np.maximum(weighted.weight * 2.0**-64, SMALLEST_FLOAT))
                least[over], greatest[over] = ops.weighted_overlap(rows[over], smaller)
            return least / np.where(greatest > 0, greatest, 1.0)
    both, either = ops.intersect(rows, ops.unique(sketches.moved(ops.asarray)))
    return ratio(both, either)


def containment(
    fingerprints: Fingerprints, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
) -> Array:
    """|A and B| / |A| of each pair (A, B), float64 [m]; 0 where either document is empty.

    It compares public hashes, scheme 1, as `jaccard` does, and raises ParameterError as it does.

    >>> from gpulsh.text.documents import shingle
    >>> fingerprints = shingle(["a b c d e", "a b c d e f"], backend="cpu")
    >>> containment(fingerprints, [[0, 1], [1, 0]], backend="cpu")
    array([1. , 0.5])
    """
    both, size, _ = _overlaps(fingerprints, pairs, backend, threads)
    return ratio(both, size)


def cosine(
    fingerprints: Fingerprints | WeightedFingerprints,
    pairs: Array,
    *,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Array:
    """|A and B| / sqrt(|A| |B|) of each pair, float64 [m], the cosine of two sets; 0 where either document is empty.

    From WeightedFingerprints it is the weighted cosine, sum(a b) / sqrt(sum(a^2) sum(b^2)), summed on the host in
    float64, in ascending order of the fingerprints. `SimHash` estimates it, by `weights` of the same name. It compares
    public hashes, scheme 1, as `jaccard` does, and raises ParameterError as it does.

    >>> from gpulsh.text.documents import shingle
    >>> fingerprints = shingle(["a b c d e", "a b c d e f g h", ""], backend="cpu")
    >>> cosine(fingerprints, [[0, 1], [0, 2]], backend="cpu")
    array([0.5, 0. ])
    """
    if isinstance(fingerprints, WeightedFingerprints):
        ops = select_backend(backend, threads=threads)
        rows = ops.asnumpy(checked_pairs(pairs, len(fingerprints), ops))
        return ops.asarray(_weighted_cosine(fingerprints.moved(ops.asnumpy), rows))
    both, one, other = _overlaps(fingerprints, pairs, backend, threads)
    return ratio(both, np.sqrt(one.astype(np.float64) * other.astype(np.float64)))


def _weighted_cosine(rows: WeightedFingerprints, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    offset = rows.offset - rows.offset[0]
    here = slice(int(rows.offset[0]), int(rows.offset[-1]))
    row, largest = np.repeat(np.arange(len(rows)), rows.lengths), np.zeros(len(rows))
    np.maximum.at(largest, row, rows.weight[here])
    weight = rows.weight[here] / largest[row]  # no square overflows, or vanishes for all
    distinct, place = np.unique(rows.values[here], return_inverse=True)
    keys = row * len(distinct) + place  # ascending
    found = np.zeros(len(pairs))
    for start, stop in row_ranges(offsets(rows.lengths[pairs[:, 0]]), AT_ONCE, AT_ONCE):
        one, other = pairs[start:stop].T
        sizes = rows.lengths[one]
        entry = expand_ranges(offset[one], sizes)
        pair = np.repeat(np.arange(len(one)), sizes)
        sought = other[pair] * len(distinct) + place[entry]
        at = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
        both = keys[at] == sought
        products = weight[entry[both]] * weight[at[both]]
        found[start:stop] = np.bincount(pair[both], products, len(one))
    squares = np.bincount(row, weight * weight, len(rows))
    lengths = np.sqrt(squares[pairs[:, 0]] * squares[pairs[:, 1]])
    return np.minimum(found / np.where(lengths > 0, lengths, 1.0), 1.0)


def _overlaps(
    fingerprints: Fingerprints, pairs: Array, backend: BackendName, threads: int | None
) -> tuple[Array, Array, Array]:
    """int64 [m] each: the distinct fingerprints in both rows of a pair, in the first, and in the second."""
    check_type("fingerprints", fingerprints, Fingerprints)
    ops = select_backend(backend, threads=threads)
    rows = checked_pairs(pairs, len(fingerprints), ops)
    unique = ops.unique(fingerprints.moved(ops.asarray))
    both, _ = ops.intersect(rows, unique)
    return both, unique.lengths[rows[:, 0]], unique.lengths[rows[:, 1]]
