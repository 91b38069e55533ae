"""components: union-find that always hooks the larger root under the smaller, so that a root is its smallest id."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.cpu.kernel import kernel


@kernel
def _components(pairs, labels):
    for pair in range(pairs.shape[0]):
        i, j = pairs[pair, 0], pairs[pair, 1]
        while labels[i] != i:
            labels[i] = labels[labels[i]]
            i = labels[i]
        while labels[j] != j:
            labels[j] = labels[labels[j]]
            j = labels[j]
        labels[max(i, j)] = min(i, j)
    for i in range(labels.size):  # a parent is smaller, so it has its final label already
        labels[i] = labels[labels[i]]


def components(count: int, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    labels = np.arange(count, dtype=np.int64)
    _components(np.ascontiguousarray(pairs), labels)
    return labels
