"""`MinHashLSHEnsemble` as datasketch 2.0 has it: sets that contain most of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.compat.datasketch.bands import quadrature
from gpulsh.compat.datasketch.lsh import AnyMinHash, MinHashLSH
from gpulsh.compat.datasketch.lshensemble_partition import optimal_partitions
from gpulsh.compat.datasketch.storage import check_in_memory
from gpulsh.errors import ParameterError
from gpulsh.theory import checked_number

NODES = 128  # of each integral
RATIOS = np.exp(np.linspace(-5, 5, 10))  # of sizes, for each of which bands are chosen


class MinHashLSHEnsemble:
    """Keys of sets of which a query is contained by at least `threshold` (Zhu, Nargesian, Pu, Miller 2016).

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
        if not 0 <= checked_number("threshold", threshold) <= 1:
            raise ParameterError(f"threshold is {threshold}; give a containment from 0 to 1")
        if num_perm < 2:
            raise ParameterError(f"num_perm is {num_perm}; give 2 or more")
        if num_part < 1:
            raise ParameterError(f"num_part is {num_part}; give 1 or more")
        if not 2 <= m <= num_perm:
            raise ParameterError(f"m is {m}; give a number of rows from 2 to num_perm, {num_perm}")
        if any(not 0 <= weight <= 1 for weight in weights) or sum(weights) != 1:
            raise ParameterError(f"weights is {weights}; give two from 0 to 1 whose sum is 1")
        self.threshold, self.h, self.m, self.xqs = threshold, num_perm, m, RATIOS
        self.params = np.array([_bands(threshold, num_perm, m, ratio, *weights) for ratio in RATIOS.tolist()])
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
            raise ParameterError("the ensemble holds sets, and takes all at once; make another")
        taken = sorted(entries, key=lambda entry: entry[2])
        if not taken or taken[0][2] <= 0:
            raise ParameterError("entries is empty, or holds a size below 1; give sets and how many tokens they have")
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


@lru_cache(maxsize=256)
def _bands(
    threshold: float, num_perm: int, most_rows: int, ratio: float, false_positive: float, false_negative: float
) -> tuple[int, int]:
    """(bands, rows) of the least weighted error, for sets `ratio` times as large as the query.

    A containment of t is then a Jaccard similarity of t / (1 + ratio - t).
    """
    choices = [(b, r) for b in range(1, num_perm + 1) for r in range(1, most_rows + 1) if b * r <= num_perm]
    bands, rows = (np.array(column, np.float64)[:, None] for column in zip(*choices, strict=True))
    nodes, weights = quadrature(NODES)

    def area(low: float, high: float, found: bool) -> NDArray[np.float64]:
        contained = low + (high - low) * (nodes + 1) / 2
        missed = (1 - (contained / (1 + ratio - contained)) ** rows) ** bands
        return np.asarray(((1 - missed if found else missed) * weights).sum(axis=1) * (high - low) / 2)

    error = false_positive * area(0.0, min(threshold, ratio), True)
    if ratio >= threshold:
        error = error + false_negative * area(threshold, min(ratio, 1.0), False)
    return choices[int(error.argmin())]
