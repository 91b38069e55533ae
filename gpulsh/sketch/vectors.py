"""Vectors of any library, dense or sparse, as the backends take them: dense rows, or numbers above 0 as weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulsh.arrays import Array, WeightedFingerprints, dtype_of, given_array
from gpulsh.backends.protocol import Backend
from gpulsh.errors import ParameterError
from gpulsh.ragged import offsets


def dense_vectors(vectors: object, ops: Backend) -> Array:
    """Real numbers [n, d] in the backend's memory, from any library's array or nested lists, or a ParameterError."""
    wanted = "numbers of shape [n, d], a vector a row"
    array = given_array("vectors", vectors, wanted)
    check_real(array)
    if array.ndim != 2:
        raise ParameterError(f"vectors has shape {tuple(array.shape)}; give {wanted}")
    return ops.asarray(array)


def check_real(vectors: Any) -> None:
    """Raise ParameterError unless an array, or a sparse matrix, has real numbers."""
    kind = dtype_of(vectors)
    if kind is None or kind.kind not in "biuf":
        given = getattr(vectors, "dtype", type(vectors).__name__)
        raise ParameterError(f"vectors is an array of {given}; give real numbers")


def dense_rows(vectors: object, ops: Backend) -> Array:
    """Non-negative float64 [n, d], as `dense_vectors` takes them, or from a sparse matrix; or a ParameterError."""
    return _weights(dense_vectors(vectors.toarray() if hasattr(vectors, "toarray") else vectors, ops))


def weighted_rows(vectors: object, ops: Backend) -> WeightedFingerprints:
    """The numbers above 0 of dense or sparse (CSR) vectors, by column; or a ParameterError."""
    if hasattr(vectors, "tocsr"):
        return _sparse(vectors, ops)
    rows = dense_rows(vectors, ops)
    count, columns = rows.shape
    flat = rows.reshape(-1)
    places = np.flatnonzero(flat > 0)
    ends = ops.asarray(np.arange(count + 1) * columns)
    return WeightedFingerprints(
        (places % max(columns, 1)).astype(np.uint64), flat[places], np.searchsorted(places, ends).astype(np.int64)
    )


def _sparse(vectors: Any, ops: Backend) -> WeightedFingerprints:
    matrix = vectors.tocsr().copy()  # of SciPy or CuPy
    matrix.sum_duplicates()  # which sorts the columns of a row, too
    check_real(matrix)
    weight = _weights(ops.asarray(matrix.data))
    kept = weight > 0
    offset = offsets(kept)[ops.asarray(matrix.indptr).astype(np.int64)]
    return WeightedFingerprints(ops.asarray(matrix.indices).astype(np.uint64)[kept], weight[kept], offset)


def _weights(array: Array) -> Array:
    numbers = array.astype(np.float64) + 0.0  # which makes 0 of -0
    if not bool(((numbers >= 0) & (numbers < np.inf)).all()):
        raise ParameterError("vectors holds numbers below 0, infinite or NaN; give finite ones from 0 on")
    return numbers
