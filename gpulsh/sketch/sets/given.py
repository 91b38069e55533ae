"""`gpulsh.minima`: MinHash by permutations or hash functions that are given, as textbooks do it by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpulsh.arrays import Signatures
from gpulsh.backends.protocol import NO_VALUE
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.text.sets import numbered_sets


def minima(
    sets: object, functions: ArrayLike, *, backend: BackendName = "auto", threads: int | None = None
) -> Signatures:
    """Signatures of sets by functions that are given: the least value of each function over each set.

    `functions` are integers [elements, num_perm] from 0 to 2^32 - 2: column i holds the value of function i at each
    element, of a permutation the element's place. `sets` holds the numbers of elements, from 0 on, as
    `gpulsh.fingerprint` takes them. Returns Signatures uint32 [n, num_perm], all ones of an empty set, which `Banding`
    and `gpulsh.jaccard` take. Raises ParameterError for other functions and elements, InputTypeError for other sets.
    Source: Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.3.

    >>> x = np.arange(5)
    >>> functions = np.stack([(x + 1) % 5, (2 * x + 3) % 5], axis=1)
    >>> minima([[0, 2, 3], [1, 2, 4]], functions, backend="cpu").values.tolist()
    [[1, 2], [0, 0]]
    """
    ops = select_backend(backend, threads=threads)
    table = _table(functions)
    rows = numbered_sets(sets, len(table))
    empty = np.full(table.shape[1], NO_VALUE, np.uint32)
    found = np.array([table[row].min(axis=0) if len(row) else empty for row in rows], np.uint32)
    return Signatures(ops.asarray(found.reshape(len(rows), table.shape[1])))


def _table(functions: ArrayLike) -> NDArray[np.uint32]:
    try:
        table = np.asarray(functions)
    except ValueError as error:  # rows of unequal length
        raise ParameterError(f"functions is no array: {error}; give integers of shape [elements, num_perm]") from None
    if table.ndim != 2 or table.dtype.kind not in "iu" or not table.shape[1]:
        raise ParameterError(
            f"functions is an array of {table.dtype} with shape {table.shape}; give integers of shape"
            " [elements, num_perm]"
        )
    if table.size and not 0 <= int(table.min()) <= int(table.max()) < NO_VALUE:
        raise ParameterError(
            f"functions holds values from {table.min()} to {table.max()}; give values from 0 to {NO_VALUE - 1}"
        )
    return table.astype(np.uint32)
