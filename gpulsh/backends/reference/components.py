"""components: a walk from each id that none before it has reached."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def components(count: int, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for i, j in pairs.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    labels = [-1] * count
    for seed in range(count):  # ascending, so that the first to reach a component is its smallest id
        if labels[seed] >= 0:
            continue
        labels[seed] = seed
        reached = [seed]
        while reached:
            for neighbour in neighbours[reached.pop()]:
                if labels[neighbour] < 0:
                    labels[neighbour] = seed
                    reached.append(neighbour)
    return np.array(labels, np.int64)
