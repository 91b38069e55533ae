"""`MinHashLSHForest` of datasketch 2.0: finds the most similar sets, without a threshold."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from gpulsh.arrays import Values
from gpulsh.compat.datasketch.lsh import AnyMinHash, check_signature
from gpulsh.errors import ParameterError


class MinHashLSHForest:
    """Keys of sets by `l` sorted tables of signature parts (Bawa, Condie, Ganesan 2005), searched by their prefixes.

    >>> from gpulsh.compat.datasketch import MinHash
    >>> forest, one = MinHashLSHForest(num_perm=16), MinHash(num_perm=16)
    >>> one.update(b"a")
    >>> forest.add("one", one)
    >>> forest.index()
    >>> forest.query(one, 2)
    ['one']
    """

    def __init__(self, num_perm: int = 128, l: int = 8) -> None:  # noqa: E741
        if not 0 < l <= num_perm:
            raise ParameterError(f"l is {l} and num_perm {num_perm}; give a number of tables from 1 to num_perm")
        self.l, self.k = l, num_perm // l
        self.hashtables: list[dict[bytes, list[Hashable]]] = [defaultdict(list) for _ in range(l)]
        self.hashranges = [(i * self.k, (i + 1) * self.k) for i in range(l)]
        self.keys: dict[Hashable, list[bytes]] = {}
        self.sorted_hashtables: list[list[bytes]] = [[] for _ in range(l)]
        self._minhash_scheme: str | None = None

    def add(self, key: Hashable, minhash: AnyMinHash) -> None:
        """Add a set, which `query` finds after the next `index()`."""
        self._check(minhash)
        if key in self.keys:
            raise ParameterError("the key is in the forest; give another")
        self._minhash_scheme = self._minhash_scheme or getattr(minhash, "scheme", None)
        self.keys[key] = [self._H(minhash.hashvalues[start:end]) for start, end in self.hashranges]
        for part, table in zip(self.keys[key], self.hashtables, strict=True):
            table[part].append(key)

    def _check(self, minhash: AnyMinHash) -> None:
        if len(minhash) < self.k * self.l:
            raise ParameterError(
                f"the signature has {len(minhash)} values; this forest takes {self.k * self.l} or more"
            )
        check_signature(minhash, self._minhash_scheme)

    def index(self) -> None:
        """Make all that was added searchable."""
        self.sorted_hashtables = [sorted(table) for table in self.hashtables]

    def query(self, minhash: AnyMinHash, k: int) -> list[Hashable]:
        """At most `k` keys of the sets that are probably most similar, in no order."""
        if k <= 0:
            raise ParameterError(f"k is {k}; give 1 or more")
        self._check(minhash)
        found: set[Hashable] = set()
        for length in range(self.k, 0, -1):
            for key in self._query(minhash, length, self.l):
                found.add(key)
                if len(found) >= k:
                    return list(found)
        return list(found)

    def _query(self, minhash: AnyMinHash, r: int, b: int) -> Iterator[Hashable]:
        """The keys whose parts begin with the same `r` values, table after table."""
        if not (0 < r <= self.k and 0 < b <= self.l):
            raise ParameterError(f"r is {r} and b {b}; give r from 1 to {self.k} and b from 1 to {self.l}")
        for (start, _), parts, table in zip(self.hashranges, self.sorted_hashtables, self.hashtables, strict=True):
            prefix = self._H(minhash.hashvalues[start : start + r])
            place = bisect_left(parts, prefix)
            while place < len(parts) and parts[place].startswith(prefix):
                yield from table[parts[place]]
                place += 1

    def get_minhash_hashvalues(self, key: Hashable) -> Values:
        """The values of a key's signature, uint32 or uint64."""
        if key not in self.keys:
            raise KeyError(f"{key!r} is not in the forest")
        parts = self.keys[key]
        width, rest = divmod(len(parts[0]), self.k)
        if rest or width not in (4, 8) or any(len(part) != len(parts[0]) for part in parts):
            raise ParameterError("the stored values of the key do not have 4 or 8 bytes each; add it again")
        return np.frombuffer(b"".join(parts), np.uint32 if width == 4 else np.uint64).byteswap()

    def is_empty(self) -> bool:
        """Whether no key can be found yet."""
        return any(len(table) == 0 for table in self.sorted_hashtables)

    def _H(self, values: Values) -> bytes:
        return values.byteswap().tobytes()

    def __contains__(self, key: Hashable) -> bool:
        return key in self.keys

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_minhash_scheme": "legacy" if state["keys"] else None, **state})  # 1.x had one
