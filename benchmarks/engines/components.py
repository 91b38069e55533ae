"""The first document of each connected component, for the libraries that stop at edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components


def first_of_each(n: int, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool [n]: whether a document is the first of those that the edges i[k] - j[k] join."""
    _, label = connected_components(coo_matrix((np.ones(len(i), np.int8), (i, j)), shape=(n, n)), directed=False)
    keep = np.zeros(n, bool)
    keep[np.unique(label, return_index=True)[1]] = True
    return keep
