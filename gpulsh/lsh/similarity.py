"""How similar the documents of given pairs are: exact from fingerprints, estimated from signatures."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signatures, WeightedFingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.lsh.share import share
from gpulsh.params import check_type
from gpulsh.sketch.agreement import checked_pairs, estimates


def jaccard(
    sketches: Fingerprints | WeightedFingerprints | Signatures,
    pairs: Array,
    *,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Array:
    """Jaccard similarity of each pair, float64 [m]: exact from Fingerprints, the estimate from Signatures.

    From WeightedFingerprints it is that of the weights, sum(min) / sum(max), summed in float64 in ascending order of
    the fingerprints, which gives the same bits on every backend.

    `pairs` int64 [m, 2] are row numbers. An empty document has similarity 0 with every document. The estimate is the
    share of equal signature values, of standard deviation sqrt(J (1 - J) / num_perm) (Broder 1997). Fingerprints of
    `gpulsh.shingle` are public hashes, scheme 1: exact for text that nobody made to collide. `deduplicate` decides by
    fingerprints under a secret instead. Raises ParameterError where `pairs` are no rows of them.

    >>> from gpulsh.text.shingling import shingle
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
        with ops.here():
            least, greatest = ops.weighted_overlap(rows, sketches.moved(ops.asarray))
            return least / np.where(greatest > 0, greatest, 1.0)
    both, either = ops.intersect(rows, _unique(sketches, ops))
    return share(both, either)


def containment(
    fingerprints: Fingerprints, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
) -> Array:
    """|A and B| / |A| of each pair (A, B), float64 [m]; 0 where either document is empty.

    Of public hashes, scheme 1, as `jaccard` is: text can be made to collide in them. Raises ParameterError as it does.

    >>> from gpulsh.text.shingling import shingle
    >>> fingerprints = shingle(["a b c d e", "a b c d e f"], backend="cpu")
    >>> containment(fingerprints, [[0, 1], [1, 0]], backend="cpu")
    array([1. , 0.5])
    """
    both, size, _ = _overlaps(fingerprints, pairs, backend, threads)
    return share(both, size)


def cosine(
    fingerprints: Fingerprints, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
) -> Array:
    """|A and B| / sqrt(|A| |B|) of each pair, float64 [m], the cosine of two sets; 0 where either document is empty.

    What `SimHash` estimates. Of public hashes, scheme 1, as `jaccard` is: text can be made to collide in them. Raises
    ParameterError as it does.

    >>> from gpulsh.text.shingling import shingle
    >>> fingerprints = shingle(["a b c d e", "a b c d e f g h", ""], backend="cpu")
    >>> cosine(fingerprints, [[0, 1], [0, 2]], backend="cpu")
    array([0.5, 0. ])
    """
    both, one, other = _overlaps(fingerprints, pairs, backend, threads)
    return share(both, np.sqrt(one.astype(np.float64) * other.astype(np.float64)))


def _overlaps(
    fingerprints: Fingerprints, pairs: Array, backend: BackendName, threads: int | None
) -> tuple[Array, Array, Array]:
    """int64 [m] each: how many distinct fingerprints both rows of a pair have, the first, and the second."""
    check_type("fingerprints", fingerprints, Fingerprints)
    ops = select_backend(backend, threads=threads)
    rows = checked_pairs(pairs, len(fingerprints), ops)
    unique = _unique(fingerprints, ops)
    both, _ = ops.intersect(rows, unique)
    sizes = unique.offset[1:] - unique.offset[:-1]
    return both, sizes[rows[:, 0]], sizes[rows[:, 1]]


def _unique(fingerprints: Fingerprints, ops: Backend) -> Fingerprints:
    return ops.unique(fingerprints.moved(ops.asarray))
