"""`gpulsh.HammingTables`: finds all signatures within a few bits of others, with tables sorted by some of their bits.

Source: Manku, Jain, Das Sarma 2007, *Detecting near-duplicates for web crawling*, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import comb, ldexp, log2
from typing import Literal

import numpy as np

from gpulsh.arrays import Array, Arrays, BitSignatures, Neighbours
from gpulsh.backends.protocol import Backend, made_on_device
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_integer, check_type, set_integer, shown
from gpulsh.errors import ParameterError
from gpulsh.lsh.pairs import pack_pairs, unpack_pairs
from gpulsh.params import MAX_TABLES, Named
from gpulsh.permutations import splitmix64_array
from gpulsh.sketch.bits import WORD_BITS, check_bits, distances, set_bits

MAX_BITS = 1 << 16
AT_ONCE = 1 << 18  # candidates in memory


@dataclass(frozen=True)
class Design:
    """The bits of each table's key, as an integer: bit i of it is bit i of a signature."""

    keys: tuple[int, ...]

    def candidates(self, count: int) -> float:
        """The expected number of `count` signatures of random bits that share a key with another, over all tables."""
        return sum(ldexp(count, -key.bit_count()) for key in self.keys)

    def cost(self, count: int) -> float:
        """The comparisons of a search for all pairs: to sort every table, and to check candidates."""
        return count * (len(self.keys) * log2(max(count, 2)) + self.candidates(count))


def designs(bits: int, distance: int) -> dict[int, Design]:
    """All designs by the number of their tables.

    >>> {tables: design.keys[0].bit_count() for tables, design in designs(64, 3).items()}
    {4: 16, 10: 26, 20: 32, 16: 28}
    """
    found: dict[int, Design] = {}
    for blocks in range(distance + 1, min(distance + 3, bits) + 1):
        if comb(blocks, distance) <= MAX_TABLES:
            lefts = combinations(_blocks(range(bits), blocks), blocks - distance)
            found.setdefault(comb(blocks, distance), Design(tuple(sum(map(_mask, left)) for left in lefts)))
    tables = (distance + 1) ** 2
    if tables <= MAX_TABLES and bits // (distance + 1) >= 2:
        twice: list[int] = []  # keys of one of the blocks, and of one of as many blocks of the rest
        for first in _blocks(range(bits), distance + 1):
            rest = [bit for bit in range(bits) if bit not in first]
            twice += [_mask(first) | _mask(second) for second in _blocks(rest, distance + 1)]
        found.setdefault(tables, Design(tuple(twice)))
    return found


def _blocks(positions: Sequence[int], count: int) -> list[Sequence[int]]:
    """`count` blocks of nearly equal size."""
    cuts = [-(-len(positions) * i // count) for i in range(count + 1)]
    return [positions[start:stop] for start, stop in pairwise(cuts)]


def _mask(positions: Sequence[int]) -> int:
    return sum(1 << position for position in positions)


@dataclass(frozen=True, kw_only=True)
class HammingTables(Named):
    """An exact search for signatures of `bits` bits, a multiple of 64, that differ in at most `distance` bits.

    Each table is sorted by a key of some bits; whichever bits differ, the key of some table has none of them. The bits
    form `distance` + 1, + 2 or + 3 blocks, and all but `distance` of them make a key (for 64 bits and 3: 4, 10 or 20
    tables). Another design cuts the bits into `distance` + 1 blocks and, for each block, the other bits into as many.
    There, a key is a block and one block of the other bits (in the paper: 16 tables with keys of 16 + 12 bits).
    `tables` is one of these numbers, or `"auto"`, the cheapest: sorting a table costs n log2 n, and it has about
    n^2 / 2^(bits of its key) candidates. The search checks candidates in pieces: apart from the tables and the result
    its memory is bounded, however many share a key. Source: Manku, Jain, Das Sarma 2007, *Detecting near-duplicates for
    web crawling*, section 3. Raises ParameterError for other numbers of bits and tables, and for a `distance` that
    takes more than 1,024 tables.

    >>> signatures = BitSignatures(np.array([[0], [2**64 - 1], [7], [15]], np.uint64))
    >>> search = HammingTables(bits=64, distance=3)
    >>> search.pairs(signatures, backend="cpu")
    array([[0, 2], [2, 3]])
    >>> built = search.build(signatures, backend="cpu")
    >>> search.query(BitSignatures(np.array([[3]], np.uint64)), backend="cpu").ids
    array([0, 2, 3])
    """

    bits: int = 64
    distance: int = 3
    tables: int | Literal["auto"] = "auto"
    _built: list[BuiltTables] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        set_bits(self, MAX_BITS)
        set_integer(self, "distance", 0, self.bits - 1)
        known = designs(self.bits, self.distance)
        if not known:
            raise ParameterError(
                f"distance is {self.distance} of {self.bits} bits, which needs too many tables; give less"
            )
        tables: object = self.tables
        if not isinstance(tables, str):
            try:
                tables = check_integer("tables", tables, 1, MAX_TABLES)
            except ParameterError:
                tables = None
        if tables not in ("auto", *known):
            raise ParameterError(
                f"tables is {shown(self.tables)}; give 'auto', {' or '.join(map(str, sorted(known)))} for distance"
                f" {self.distance} of {self.bits} bits"
            )
        object.__setattr__(self, "tables", tables)

    def design(self, count: int) -> Design:
        """The keys of the tables for `count` signatures. Raises ParameterError if it is not a count."""
        count = check_integer("count", count, 0, 1 << 62)
        known = designs(self.bits, self.distance)
        if self.tables != "auto":
            return known[self.tables]
        return min(known.values(), key=lambda design: design.cost(count))

    def expected_candidates(self, count: int) -> float:
        """The expected number of candidates of a query among `count` signatures of random bits, over all tables.

        Each table has count / 2^(bits of its key). Raises ParameterError if it is not a count.
        Source: section 3.2 of the paper.

        >>> HammingTables(bits=64, distance=3, tables=16).expected_candidates(2**34)  # 64 of each table
        1024.0
        """
        return self.design(count).candidates(count)

    def pairs(
        self, bit_signatures: BitSignatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """Every pair of rows within `distance`: int64 [m, 2], i < j, lexicographic, unique.

        They include all pairs of equal rows; where these may be too many for memory, use `pieces`. Raises
        ParameterError if signatures have another number of bits, as all calls here do.
        """
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            found = [ops.asarray(np.empty(0, np.uint64))]
            found += [pack_pairs(*piece.T) for piece in self.pieces(bit_signatures, backend=backend, threads=threads)]
            return unpack_pairs(np.sort(np.concatenate(found)))

    def pieces(
        self, bit_signatures: BitSignatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Iterator[Array]:
        """The same pairs in pieces int64 [some, 2], i < j, each once, in no order.

        Raises ParameterError, as all calls here do, when the first piece is taken.
        """
        ops, words = self._words(bit_signatures, backend, threads)
        yield from made_on_device(ops, self._pieces(words))

    def _pieces(self, words: Array) -> Iterator[Array]:
        keys = self.design(len(words)).keys
        for number, key in enumerate(keys):
            digests, order = _sorted_table(words, key)
            here = words[order]
            begin = np.arange(1, len(words) + 1, dtype=np.int64, like=words)
            end = np.searchsorted(digests, digests, side="right")
            for left, right in _expand_places(begin, end):
                chosen = _near_rows(here[left], here[right], self.distance, keys[: number + 1])
                yield _ordered_pairs(order[left[chosen]], order[right[chosen]])

    def build(
        self, bit_signatures: BitSignatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> BuiltTables:
        """The tables of signatures, 16 bytes per signature and table; `query` of this object uses them from now on.

        Raises ParameterError if signatures have another number of bits.
        """
        ops, words = self._words(bit_signatures, backend, threads)
        design = self.design(len(words))
        with ops.use_device():
            built = BuiltTables(self, design, words, [_sorted_table(words, key) for key in design.keys])
        self._built[:] = [built]
        return built

    def query(
        self, bit_signatures: BitSignatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Neighbours:
        """`BuiltTables.query` of the tables built last. Raises ParameterError before `build`."""
        if not self._built:
            raise ParameterError("no tables are built; call build(bit_signatures) before query")
        return self._built[0].query(bit_signatures, backend=backend, threads=threads)

    def _words(self, signatures: BitSignatures, backend: BackendName, threads: int | None) -> tuple[Backend, Array]:
        check_type("bit_signatures", signatures, BitSignatures)
        check_bits(signatures, self.bits)
        ops = select_backend(backend, threads=threads)
        return ops, ops.asarray(signatures.values)


def _ordered_pairs(i: Array, j: Array) -> Array:
    """int64 [m, 2]: pairs with the lower row first."""
    return np.stack([np.minimum(i, j), np.maximum(i, j)], axis=1)


def _sorted_table(words: Array, key: int) -> tuple[Array, Array]:
    """A table: the digests of a key, uint64 [n], ascending, and the row of each, int64 [n]."""
    digests = key_digests(words, key)
    order = np.argsort(digests, kind="stable")
    return digests[order], order


@dataclass(frozen=True, eq=False, repr=False)
class BuiltTables(Arrays):
    """Tables of signatures that any backend can query, in their own memory or with a copy."""

    search: HammingTables
    design: Design = field(repr=False, compare=False)  # follows from the others, as the tables do
    words: Array  # uint64 [n, bits / 64]
    tables: list[tuple[Array, Array]] = field(repr=False, compare=False)

    def query(
        self, bit_signatures: BitSignatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Neighbours:
        """The rows of the tables within `distance` of each given row: Neighbours, ids ascending.

        Raises ParameterError if signatures have another number of bits.
        """
        ops, asked = self.search._words(bit_signatures, backend, threads)
        words, keys = ops.asarray(self.words), self.design.keys
        found = [ops.asarray(np.empty(0, np.uint64))]
        with ops.use_device():
            for number, table in enumerate(self.tables):
                digests, order = map(ops.asarray, table)
                wanted = key_digests(asked, keys[number])
                ranges = (np.searchsorted(digests, wanted, side=side) for side in ("left", "right"))
                for query, place in _expand_places(*ranges):
                    row = order[place]
                    chosen = _near_rows(asked[query], words[row], self.search.distance, keys[: number + 1])
                    found.append(pack_pairs(query[chosen], row[chosen]))
            query, ids = unpack_pairs(np.sort(np.concatenate(found))).T.copy()
            return Neighbours(ids, np.searchsorted(query, np.arange(len(asked) + 1, dtype=np.int64, like=query)))


def key_digests(words: Array, key: int) -> Array:
    """uint64 [n]: equal where the bits of `key` are equal; for signatures of one word, exactly there."""
    digests = np.zeros_like(words[:, 0])
    for bits in _key_bits(words, key):
        digests = splitmix64_array(digests ^ bits)
    return digests


def _key_bits(words: Array, key: int) -> Iterator[Array]:
    """The bits of a key in each word, uint64 [n]."""
    for word in range(words.shape[1]):
        yield words[:, word] & np.uint64(key >> WORD_BITS * word & (1 << WORD_BITS) - 1)


def _near_rows(left: Array, right: Array, distance: int, keys: tuple[int, ...]) -> Array:
    """int64: the rows within `distance` that agree in the bits of the last key, but of no key before."""
    near = np.flatnonzero(distances(left, right) <= distance)
    apart = left[near] ^ right[near]
    chosen = np.ones_like(near, bool)
    for key in keys:
        alike = sum(bits != 0 for bits in _key_bits(apart, key)) == 0
        chosen &= alike if key == keys[-1] else ~alike
    return near[chosen]


def _expand_places(begin: Array, end: Array) -> Iterator[tuple[Array, Array]]:
    """Every (i, place) with begin[i] <= place < end[i], int64, in pieces of `AT_ONCE`."""
    rows = np.flatnonzero(end > begin)
    if len(rows) == 0:
        return
    begin, ends = begin[rows], np.cumsum(end[rows] - begin[rows])
    starts = ends - (end[rows] - begin)
    total = int(ends[-1])
    for start in range(0, total, AT_ONCE):
        stop = min(start + AT_ONCE, total)
        first, last = (int(np.searchsorted(ends, place, side="right")) for place in (start, stop - 1))
        steps = np.zeros_like(ends, shape=stop - start)
        steps[ends[first:last] - start] = 1
        row = first + np.cumsum(steps)
        place = np.arange(start, stop, dtype=np.int64, like=ends) - starts[row] + begin[row]
        yield rows[row], place
