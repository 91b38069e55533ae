"""`MinHashLSHEnsemble` of datasketch 2.0: finds sets that contain most of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.compat.datasketch.lsh import AnyMinHash, MinHashLSH, check_arguments, optimal_bands
from gpulsh.compat.datasketch.storage import check_in_memory
from gpulsh.errors import ParameterError

RATIOS = np.exp(np.linspace(-5, 5, 10))  # of sizes; each has its own bands


Counts = NDArray[np.integer]


class MinHashLSHEnsemble:
    """Keys of sets that contain at least `threshold` of a query (Zhu, Nargesian, Pu, Miller 2016).

    >>> from gpulsh.compat.datasketch import MinHash
    >>> ensemble, one = MinHashLSHEnsemble(threshold=0.8, num_perm=16, num_part=2), MinHash(num_perm=16)
    >>> one.update_batch([b"a", b"b"])
    >>> ensemble.index([("one", one, 2)])
    >>> list(ensemble.query(one, 2))
    ['one']
    """

    def __init__(
        self,
        threshold: float = 0.9,
        num_perm: int = 128,
        num_part: int = 16,
        m: int = 8,
        weights: tuple[float, float] = (0.5, 0.5),
        storage_config: Mapping[str, Any] | None = None,
        prepickle: bool | None = None,
    ) -> None:
        check_in_memory(storage_config)
        check_arguments(threshold, num_perm, weights)
        if num_part < 1:
            raise ParameterError(f"num_part is {num_part}; give 1 or more")
        if not 2 <= m <= num_perm:
            raise ParameterError(f"m is {m}; give a number of rows from 2 to num_perm, {num_perm}")
        self.threshold, self.h, self.m, self.xqs = threshold, num_perm, m, RATIOS
        self.params = np.array([optimal_bands(threshold, num_perm, *weights, ratio, m) for ratio in RATIOS.tolist()])
        rows = set(self.params[:, 1].tolist())
        self.indexes = [
            {r: MinHashLSH(num_perm=num_perm, params=(num_perm // r, r), prepickle=prepickle) for r in rows}
            for _ in range(num_part)
        ]
        self.lowers: list[int | None] = [None] * num_part
        self.uppers: list[int | None] = [None] * num_part

    def index(self, entries: Iterable[tuple[Hashable, AnyMinHash, int]]) -> None:
        """Take all sets at once: the key, the signature and the number of tokens of each."""
        if not self.is_empty():
            raise ParameterError(
                "the ensemble already has its sets, and takes all of them in one call; make another one"
            )
        taken = sorted(entries, key=lambda entry: entry[2])
        if not taken or taken[0][2] <= 0:
            raise ParameterError("entries is empty, or has a size below 1; give sets and the number of tokens in each")
        sizes, counts = np.array(sorted(Counter(size for *_, size in taken).items())).T
        for part, (lower, upper) in enumerate(optimal_partitions(sizes, counts, len(self.indexes))):
            self.lowers[part], self.uppers[part] = lower, upper
        part = 0
        for key, minhash, size in taken:
            part += size > (self.uppers[part] or 0)
            for table in self.indexes[part].values():
                table.insert(key, minhash)

    def query(self, minhash: AnyMinHash, size: int) -> Generator[Hashable, None, None]:
        """The keys of sets that probably contain a set of `size` tokens."""
        for upper, tables in zip(self.uppers, self.indexes, strict=True):
            if upper is not None:
                place = min(int(np.searchsorted(self.xqs, float(upper) / float(size))), len(self.params) - 1)
                bands, rows = self.params[place].tolist()
                yield from tables[rows]._query_b(minhash, bands)

    def __contains__(self, key: Hashable) -> bool:
        return any(key in table for tables in self.indexes for table in tables.values())

    def is_empty(self) -> bool:
        """Whether it holds no set."""
        return all(table.is_empty() for tables in self.indexes for table in tables.values())


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
    cost, last = np.zeros((len(known), len(known))), len(known) - 1
    for u in range(len(known)):  # cost[l, u]: false positives to expect of the range from size number l to u
        for low in range(u + 1):
            some = slice(low, u + 1)
            cost[low, u] = np.sum((float(known[u]) - sizes[some]) / float(known[u]) * counts[some])
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
