"""`MinHashLSHEnsemble` of datasketch 2.0: finds sets that contain most of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
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
    cost, largest = np.zeros((len(known), len(known))), sizes.astype(np.float64)[:, None]
    shares = (largest - sizes) / largest * counts
    row, item = shares.strides
    # cost[l, u]: false positives to expect of the range from size number l to u.
    for length in range(1, len(known) + 1):
        low = np.arange(len(known) - length + 1)
        ranges = as_strided(shares[length - 1 :], (len(low), length), (row + item, item))  # shares[u, l : u + 1]
        cost[low, low + length - 1] = ranges.sum(axis=1)  # rounded as in datasketch

    def costs_of_cuts(costs: NDArray[np.float64], parts: int, u: int) -> NDArray[np.float64]:
        """The costs of sizes 0 .. u by where the last of `parts` ranges begins, from the earliest place on."""
        return costs[parts - 2 : u] + cost[parts - 1 : u + 1, u]

    # `best[p][u]`: the least cost of cutting sizes 0 .. u into p ranges.
    best = {1: cost[0]}
    for parts in range(2, num_part):
        best[parts] = np.zeros(len(known))
        for u in range(parts - 1, len(known)):
            best[parts][u] = costs_of_cuts(best[parts - 1], parts, u).min()
    found, end, costs = list[tuple[int, int]](), len(known) - 1, best[num_part - 1]
    for parts in range(num_part, 1, -1):
        begin = parts - 1 + int(costs_of_cuts(costs, parts, end).argmin())
        found.insert(0, (known[begin], known[end]))
        end, costs = begin - 1, best[parts - 1]  # the costs of one range more than are left, as datasketch does
    return [(known[0], known[end]), *found]
