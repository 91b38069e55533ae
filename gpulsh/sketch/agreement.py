"""The share of equal values of two signatures, which every set sketch estimates Jaccard similarity by."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, held
from gpulsh.backends.protocol import Backend
from gpulsh.errors import ParameterError

PAIRS_AT_ONCE = 1 << 14  # signature rows gathered at once


def estimates(signatures: Array, rows: Array) -> Array:
    """The share of equal values of signature rows `rows` [m, 2], 0 where a row is an empty document's."""
    parts, no_value = [], np.iinfo(signatures.dtype).max
    for start in range(0, max(len(rows), 1), PAIRS_AT_ONCE):
        left, right = (signatures[rows[start : start + PAIRS_AT_ONCE, side]] for side in (0, 1))
        filled = (left != no_value).any(axis=1)
        parts.append((left == right).mean(axis=1) * filled)
    return np.concatenate(parts)


def checked_pairs(pairs: Array, count: int, ops: Backend) -> Array:
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
