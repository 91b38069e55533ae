"""Estimates of pairs of rows: what may be asked for, and the share of equal values that set sketches go by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpulsh.arrays import Array, Made, held
from gpulsh.backends.protocol import Backend
from gpulsh.errors import ParameterError
from gpulsh.params import check_integer
from gpulsh.theory import checked_number

PAIRS_AT_ONCE = 1 << 14  # whose rows are gathered at once


def estimates(signatures: Array, rows: Array) -> Array:
    """The share of equal values of signature rows `rows` [m, 2], 0 where a row is an empty document's."""
    no_value = np.iinfo(signatures.dtype).max

    def shares(some: Array) -> Array:
        left, right = signatures[some[:, 0]], signatures[some[:, 1]]
        filled = (left != no_value).any(axis=1)
        return (left == right).mean(axis=1) * filled

    return of_pairs(rows, shares)


def of_pairs(rows: Array, work: Callable[[Array], Array]) -> Array:
    """`work` of pairs [m, 2], some at a time, end to end."""
    starts = range(0, max(len(rows), 1), PAIRS_AT_ONCE)
    return np.concatenate([work(rows[start : start + PAIRS_AT_ONCE]) for start in starts])


def check_estimated(value: float, size: int | None, measure: str = "similarity", low: int = 0) -> None:
    """A ParameterError unless a `measure` can be `value` and the union of two documents have `size` shingles."""
    if not low <= checked_number("value", value) <= 1:
        raise ParameterError(f"value is {value}; give a {measure} from {low} to 1")
    if size is not None:
        check_integer("size, the number of shingles that either document has,", size, 1, 1 << 62)


def check_maker(name: str, sketched: Made, sketch: object) -> None:
    """A ParameterError where the parameter `name` is known to be what another sketch made."""
    if sketched.maker not in (None, sketch):
        raise ParameterError(
            f"{name} were made by {sketched.maker}, and {sketch} was asked for estimates; ask the former"
        )


def checked_pairs(pairs: Array, count: int, ops: Backend) -> Array:
    """Pairs of rows of `count` documents as int64 [m, 2] of the backend, or a ParameterError."""
    try:
        array = held(pairs) if hasattr(pairs, "dtype") else np.asarray(pairs)
        array = array if isinstance(array, np.ndarray) else ops.asarray(array)
    except ValueError as error:  # rows of unequal length
        raise ParameterError(f"pairs is no array: {error}; give integers of shape [m, 2]") from None
    if array.size == 0:
        return ops.asarray(np.empty((0, 2), np.int64))
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ParameterError(
            f"pairs is an array of {array.dtype} with shape {tuple(array.shape)}; give integers of shape [m, 2]"
        )
    if int(array.min()) < 0 or int(array.max()) >= count:
        allowed = f"; give rows from 0 to {count - 1}" if count else " of none; give no pairs"
        raise ParameterError(f"pairs holds rows from {int(array.min())} to {int(array.max())}{allowed}")
    return ops.asarray(array.astype(np.int64))
