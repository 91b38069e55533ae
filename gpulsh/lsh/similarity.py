"""How similar the documents of given pairs are: exact from fingerprints, estimated from signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signatures, held
from gpulsh.backends.protocol import NO_VALUE, Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.params import check_type

PAIRS_AT_ONCE = 1 << 14  # signature rows gathered at once


def jaccard(
    sketches: Fingerprints | Signatures, pairs: Any, *, backend: BackendName = "auto", threads: int | None = None
) -> Array:
    """Jaccard similarity of each pair, float64 [m]: exact from Fingerprints, the estimate from Signatures.

    `pairs` int64 [m, 2] are row numbers. An empty document has similarity 0 with every document. The estimate is the
    share of equal signature values, of standard deviation sqrt(J (1 - J) / num_perm) (Broder 1997). Fingerprints of
    `gpulsh.shingle` are public hashes, scheme 1: exact for text that nobody made to collide. `deduplicate` decides by
    fingerprints under a secret instead.

    >>> from gpulsh.text.shingling import shingle
    >>> fingerprints = shingle(["a b c d e f", "a b c d e g", ""], backend="cpu")
    >>> jaccard(fingerprints, [[0, 1], [0, 2]], backend="cpu")
    array([0.33333333, 0.        ])
    """
    check_type("sketches", sketches, Fingerprints, Signatures)
    ops = select_backend(backend, threads=threads)
    rows = ops.asarray(checked_pairs(pairs, len(sketches), ops))
    if isinstance(sketches, Signatures):
        return estimates(ops.asarray(sketches.values), rows)
    both, either = ops.intersect(rows, _unique(sketches, ops))
    return _ratio(both, either)


def containment(
    fingerprints: Fingerprints, pairs: Any, *, backend: BackendName = "auto", threads: int | None = None
) -> Array:
    """|A and B| / |A| of each pair (A, B), float64 [m]; 0 where either document is empty.

    Of public hashes, scheme 1, as `jaccard` is: text can be made to collide in them.

    >>> from gpulsh.text.shingling import shingle
    >>> fingerprints = shingle(["a b c d e", "a b c d e f"], backend="cpu")
    >>> containment(fingerprints, [[0, 1], [1, 0]], backend="cpu")
    array([1. , 0.5])
    """
    check_type("fingerprints", fingerprints, Fingerprints)
    ops = select_backend(backend, threads=threads)
    rows = ops.asarray(checked_pairs(pairs, len(fingerprints), ops))
    unique = _unique(fingerprints, ops)
    both, _ = ops.intersect(rows, unique)
    return _ratio(both, (unique.offset[1:] - unique.offset[:-1])[rows[:, 0]])


def estimates(signatures: Array, rows: Array) -> Array:
    """The share of equal values of signature rows `rows` [m, 2], 0 where a row is an empty document's."""
    parts = []
    for start in range(0, max(len(rows), 1), PAIRS_AT_ONCE):
        left, right = (signatures[rows[start : start + PAIRS_AT_ONCE, side]] for side in (0, 1))
        filled = (left != NO_VALUE).any(axis=1)
        parts.append((left == right).mean(axis=1) * filled)
    return np.concatenate(parts)


def checked_pairs(pairs: Any, count: int, ops: Backend) -> Array:
    """Pairs of rows of `count` documents as int64 [m, 2], on the host or the backend's device, or a ParameterError."""
    try:
        array = held(pairs) if hasattr(pairs, "dtype") else np.asarray(pairs)
        array = array if isinstance(array, np.ndarray) else ops.asarray(array)
    except ValueError as error:  # rows of unequal length
        raise ParameterError(f"pairs is no array: {error}; give integers of shape [m, 2]") from None
    if array.size == 0:
        return np.empty((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ParameterError(
            f"pairs is an array of {array.dtype} with shape {tuple(array.shape)}; give integers of shape [m, 2]"
        )
    if int(array.min()) < 0 or int(array.max()) >= count:
        raise ParameterError(
            f"pairs holds rows from {int(array.min())} to {int(array.max())}; give rows from 0 to {count - 1}"
        )
    return array.astype(np.int64)


def _unique(fingerprints: Fingerprints, ops: Backend) -> Fingerprints:
    return ops.unique(fingerprints.moved(ops.asarray))


def _ratio(part: Array, whole: Array) -> Array:
    return part.astype(np.float64) / np.maximum(whole, 1).astype(np.float64)
