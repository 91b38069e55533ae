"""Vectors as their user gives them, dense or sparse, of whatever library."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulsh.arrays import Array, dtype_of, held
from gpulsh.backends.protocol import Backend
from gpulsh.errors import ParameterError


def dense_vectors(vectors: object, ops: Backend) -> Array:
    """Real numbers [n, d] on the backend, of any library's array or nested lists; or a ParameterError."""
    try:
        array = held(vectors) if hasattr(vectors, "dtype") else np.asarray(vectors)
    except ValueError as error:  # rows of unequal length
        raise ParameterError(f"vectors is no array: {error}; give numbers of shape [n, d], a vector a row") from None
    check_real(array)
    if array.ndim != 2:
        raise ParameterError(f"vectors has shape {tuple(array.shape)}; give numbers of shape [n, d], a vector a row")
    return ops.asarray(array)


def check_real(vectors: Any) -> None:
    """A ParameterError unless an array, or a sparse matrix, has real numbers."""
    kind = dtype_of(vectors)
    if kind is None or kind.kind not in "biuf":
        given = getattr(vectors, "dtype", type(vectors).__name__)
        raise ParameterError(f"vectors is an array of {given}; give real numbers")
