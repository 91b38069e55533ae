"""`MinHashLSH` of datasketch 2.0, in memory, and its choice of bands."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from itertools import cycle
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Values
from gpulsh.checks import plural
from gpulsh.compat.datasketch.minhash import MinHash
from gpulsh.compat.datasketch.storage import DictListStorage, DictSetStorage, check_in_memory
from gpulsh.compat.datasketch.weighted_minhash import WeightedMinHash
from gpulsh.errors import ParameterError
from gpulsh.theory import checked_number

AnyMinHash = MinHash | WeightedMinHash
LEGACY_BYTES = 8  # of a value of datasketch 1.x in a key
NODES = 128  # of an integral over containment
MAX_NODES = 256  # of one over Jaccard similarity: by more, memory grows with the square of num_perm
_quadrature = lru_cache(maxsize=8)(np.polynomial.legendre.leggauss)  # Gauss and Legendre's nodes and weights


def chosen_bands(
    threshold: float, num_perm: int, weights: tuple[float, float], params: tuple[int, int] | None
) -> tuple[int, int]:
    """(bands, rows): `params`, or the best ones; ParameterError for a wrong argument."""
    check_arguments(threshold, num_perm, weights)
    bands, rows = optimal_bands(threshold, num_perm, *weights) if params is None else params
    if bands * rows > num_perm:
        raise ParameterError(f"params is {params}, and num_perm {num_perm}; give bands * rows of at most num_perm")
    if bands < 2 or rows < 1:
        banding = "the best banding" if params is None else "params"
        raise ParameterError(
            f"{banding} has {plural(bands, 'band')} of {rows} values; give a larger num_perm, or 2 bands or more"
        )
    return bands, rows


def check_arguments(threshold: float, num_perm: int, weights: tuple[float, float]) -> None:
    """ParameterError for an impossible threshold, signature or weights."""
    if not 0 <= checked_number("threshold", threshold) <= 1:
        raise ParameterError(f"threshold is {threshold}; give a number from 0 to 1")
    if num_perm < 2:
        raise ParameterError(f"num_perm is {num_perm}; give 2 or more")
    if any(not 0 <= weight <= 1 for weight in weights) or sum(weights) != 1:
        raise ParameterError(f"weights is {weights}; give two from 0 to 1 whose sum is 1")


@lru_cache(maxsize=256)
def optimal_bands(
    threshold: float,
    num_perm: int,
    false_positive: float,
    false_negative: float,
    ratio: float | None = None,
    max_rows: int | None = None,
) -> tuple[int, int]:
    """(bands, rows) of the least weighted area of false positives below and of false negatives above the threshold.

    The search is by Jaccard similarity, whose S-curve is a polynomial. Gauss and Legendre's nodes integrate it without
    error up to 511 values, and with an error of about 1e-14 beyond. With `ratio` it is by containment, in sets that are
    `ratio` times as large as the query. Then a containment of t is a Jaccard similarity of t / (1 + ratio - t).

    If false positives weigh 0, only rounding decides: datasketch's choice may have a few bands more or less.

    >>> optimal_bands(0.9, 128, 0.5, 0.5)
    (5, 25)
    """
    places, parts = _quadrature(min(num_perm // 2 + 1, MAX_NODES) if ratio is None else NODES)
    greatest = 1.0 if ratio is None else min(ratio, 1.0)
    choices = [(b, r) for b in range(1, num_perm + 1) for r in range(1, min(max_rows or num_perm, num_perm // b) + 1)]
    bands, rows = (np.array(column, np.float64)[:, None] for column in zip(*choices, strict=True))

    def area(low: float, high: float, found: bool) -> NDArray[np.float64]:
        at = low + (high - low) * (places + 1) / 2
        missed = (1 - (at if ratio is None else at / (1 + ratio - at)) ** rows) ** bands
        # Rounded as in datasketch: an area of false negatives below 2^-53 is 0, and the fewest bands have it.
        return np.asarray(((1 - missed if found else 1 - (1 - missed)) * parts).sum(axis=1) * (high - low) / 2)

    error = false_positive * area(0.0, min(threshold, greatest), True)
    if greatest >= threshold:
        error = error + false_negative * area(threshold, greatest, False)
    return choices[int(error.argmin())]


class MinHashLSH:
    """Finds keys of sets that are probably as similar as `threshold`, by equal bands of their signatures.

    Arguments, attributes and pickles are datasketch's, but `keys` and `hashtables` are dictionaries, and
    `storage_config` is of type "dict" alone. All signatures of an index are of one scheme: another is a
    ParameterError, also where the index was pickled by datasketch 1.x, whose signatures are `legacy`.

    >>> index = MinHashLSH(threshold=0.5, num_perm=16)
    >>> one = MinHash(num_perm=16)
    >>> one.update(b"a")
    >>> index.insert("one", one)
    >>> index.query(one), index.b, index.r
    (['one'], 5, 3)
    """

    buffer_size = 50_000  # of storages on servers: no effect
    _minhash_scheme: str | None

    def __init__(
        self,
        threshold: float = 0.9,
        num_perm: int = 128,
        weights: tuple[float, float] = (0.5, 0.5),
        params: tuple[int, int] | None = None,
        storage_config: Mapping[str, Any] | None = None,
        prepickle: bool | None = None,
        hashfunc: Callable[[bytes], bytes] | None = None,
    ) -> None:
        check_in_memory(storage_config)
        self.h = num_perm
        self.b, self.r = chosen_bands(threshold, num_perm, weights, params)
        self.prepickle = bool(prepickle)
        self.hashfunc = hashfunc
        self.hashtables = [DictSetStorage() for _ in range(self.b)]
        self.hashranges = [(i * self.r, (i + 1) * self.r) for i in range(self.b)]
        self.keys = DictListStorage()
        self._minhash_scheme = None
        self._queried: list[set[Hashable]] = []

    def insert(self, key: Hashable, minhash: AnyMinHash, check_duplication: bool = True) -> None:
        """Add a set by its key. ParameterError if the index has the key, unless `check_duplication` is False."""
        found = self._band_keys(minhash)
        key = pickle.dumps(key) if self.prepickle else key
        if check_duplication and key in self.keys:
            raise ParameterError("the key is in the index; give another, or remove it first")
        self._minhash_scheme = self._minhash_scheme or getattr(minhash, "scheme", None)
        self._take(key, found)

    def _take(self, key: Hashable, bands: list[bytes]) -> None:
        self.keys.setdefault(key, []).extend(bands)  # of each insertion without `check_duplication`
        for band, table in zip(bands, cycle(self.hashtables), strict=False):
            table.setdefault(band, set()).add(key)

    def _band_keys(self, minhash: AnyMinHash, bands: int | None = None) -> list[bytes]:
        """The bytes of each band, or a ParameterError if the signature does not fit the index."""
        check_signature(minhash, self._minhash_scheme, self.h)
        whole = self._byteswap(minhash.hashvalues)
        size = len(whole) // self.h * self.r
        found = [whole[start : start + size] for start in range(0, size * (self.b if bands is None else bands), size)]
        return found if self.hashfunc is None else [self.hashfunc(band) for band in found]

    def _byteswap(self, values: Values) -> bytes:
        """The bytes of a band in a table; datasketch's pickles name this method and the next one."""
        return values.byteswap().tobytes()

    def _hashed_byteswap(self, values: Values) -> bytes:
        assert self.hashfunc is not None
        return self.hashfunc(self._byteswap(values))

    def merge(self, other: MinHashLSH, check_overlap: bool = False) -> None:
        """Add all of another index of the same bands."""
        if type(self) is not type(other) or (self.h, self.b, self.r) != (other.h, other.b, other.r):
            raise ParameterError(
                "the other index has a different num_perm or banding; merge only indexes with equal ones"
            )
        if self._minhash_scheme and other._minhash_scheme and self._minhash_scheme != other._minhash_scheme:
            raise ParameterError(
                f"the indexes are of schemes {self._minhash_scheme!r} and {other._minhash_scheme!r}; merge equal ones"
            )
        if check_overlap and not self.keys.keys().isdisjoint(other.keys.keys()):
            raise ParameterError("some keys are in both indexes; remove them from one")
        self._minhash_scheme = self._minhash_scheme or other._minhash_scheme
        for key, found in other.keys.items():
            self._take(key, found)

    def insertion_session(self, buffer_size: int = 50000) -> MinHashLSHSession:
        """A context for many insertions or removals; each takes effect at once in memory, and nothing is buffered."""
        return MinHashLSHSession(self)

    deletion_session = insertion_session

    def query(self, minhash: AnyMinHash) -> list[Hashable]:
        """The keys of sets that share a band with this one, in no order."""
        return list(self._query_b(minhash, self.b))

    def _query_b(self, minhash: AnyMinHash, b: int) -> set[Hashable]:
        """The keys of sets that share one of the first `b` bands."""
        if b > self.b:
            raise ParameterError(f"b is {b}; this index has {self.b} bands")
        found: set[Hashable] = set()
        for band, table in zip(self._band_keys(minhash, b), self.hashtables, strict=False):
            found.update(table.get(band, ()))
        return {pickle.loads(key) for key in found} if self.prepickle else found  # type: ignore[arg-type]

    def add_to_query_buffer(self, minhash: AnyMinHash) -> None:
        """Add a query; `collect_query_buffer` answers all."""
        self._queried.append(self._query_b(minhash, self.b))

    def collect_query_buffer(self) -> list[Hashable]:
        """The keys that all queries since the last call have in common."""
        queried, self._queried = self._queried, []
        return list(set.intersection(*queried)) if queried else []

    def __contains__(self, key: Hashable) -> bool:
        return (pickle.dumps(key) if self.prepickle else key) in self.keys

    def remove(self, key: Hashable) -> None:
        """Remove a key. ParameterError if the index does not have it."""
        key = pickle.dumps(key) if self.prepickle else key
        if key not in self.keys:
            raise ParameterError("the key is not in the index; give one that was inserted")
        for band, table in zip(self.keys.pop(key), cycle(self.hashtables), strict=False):
            keys = table.get(band, set())
            keys.discard(key)
            if not keys:
                table.pop(band, None)

    def is_empty(self) -> bool:
        """Whether it has no key."""
        return not self.keys

    def get_counts(self) -> list[dict[Hashable, int]]:
        """The number of keys of each band, for each table."""
        return [{band: len(keys) for band, keys in table.items()} for table in self.hashtables]

    def get_subset_counts(self, *keys: Hashable) -> list[dict[Hashable, int]]:
        """`get_counts` for some keys only."""
        chosen = {pickle.dumps(key) if self.prepickle else key for key in keys}
        found = [self.keys[key] for key in chosen if key in self.keys]
        return [dict(Counter(band for bands in found for band in {*bands[at :: self.b]})) for at in range(self.b)]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_queried": [], **state})
        self.__dict__.pop("_H", None)  # of datasketch: a method of its own
        if "_minhash_scheme" not in state:  # of 1.x, which had one scheme; WeightedMinHash has none, and longer keys
            lengths = {len(band) for table in self.hashtables[:1] for band in table if isinstance(band, bytes)}
            self._minhash_scheme = "legacy" if lengths == {LEGACY_BYTES * self.r} else None


def check_signature(minhash: AnyMinHash, known: str | None, size: int | None = None) -> None:
    """ParameterError if a signature has another scheme than the index, or another length."""
    if size is not None and len(minhash) != size:
        raise ParameterError(f"the signature has {len(minhash)} values; this index takes {size}")
    scheme = getattr(minhash, "scheme", None)
    if known is not None and scheme is not None and scheme != known:
        raise ParameterError(
            f"the signature has scheme {scheme!r} and the index has {known!r}; give one scheme to both"
        )


class MinHashLSHSession:
    """A context that changes an index."""

    def __init__(self, lsh: MinHashLSH) -> None:
        self.lsh, self.insert, self.remove = lsh, lsh.insert, lsh.remove

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Does nothing, because nothing was buffered."""


MinHashLSHInsertionSession = MinHashLSHDeletionSession = MinHashLSHSession
