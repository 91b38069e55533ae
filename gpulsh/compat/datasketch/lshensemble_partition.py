"""How datasketch cuts the sizes of sets into ranges, so that few false positives come of taking each for its most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.integer]


def optimal_partitions(sizes: Counts, counts: Counts, num_part: int) -> list[tuple[int, int]]:
    """The least and greatest size of each of at most `num_part` ranges, of ascending `sizes` and how many have each.

    >>> optimal_partitions(np.array([1, 2, 9, 10]), np.array([5, 5, 5, 5]), 2)
    [(1, 2), (9, 10)]
    """
    known = sizes.tolist()
    if num_part < 2:
        return [(known[0], known[-1])]
    if num_part >= len(known):
        return [(size, size) for size in known]
    cost, last = _range_costs(sizes, counts), len(known) - 1
    # `best[p][u]`: the least cost of cutting sizes 0 .. u into p ranges.
    best = {1: cost[0].tolist()}
    for parts in range(2, num_part):
        best[parts] = [
            min((best[parts - 1][cut] + cost[cut + 1, u] for cut in range(parts - 2, u)), default=0.0)
            for u in range(len(known))
        ]

    def cut_of(costs: list[float], parts: int, u: int) -> int:
        """Where the last of `parts` ranges that end with size u begins, less one."""
        return min((costs[cut] + cost[cut + 1, u], cut) for cut in range(parts - 2, u))[1]

    cut = cut_of(best[num_part - 1], num_part, last)
    ranges, u = [(known[cut + 1], known[last])], cut
    for parts in range(num_part - 1, 1, -1):  # by the costs of one range more than are left, as datasketch does
        cut = cut_of(best[parts], parts, u)
        ranges.insert(0, (known[cut + 1], known[u]))
        u = cut
    return [(known[0], known[u]), *ranges]


def _range_costs(sizes: Counts, counts: Counts) -> NDArray[np.float64]:
    """[l, u]: false positives to expect of the range from size number l to u."""
    costs = np.zeros((len(sizes), len(sizes)))
    for u in range(len(sizes)):
        greatest = float(sizes[u])
        for low in range(u + 1):
            costs[low, u] = np.sum((greatest - sizes[low : u + 1]) / greatest * counts[low : u + 1])
    return costs
