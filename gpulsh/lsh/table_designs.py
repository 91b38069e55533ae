"""Which bits the tables of a Hamming search are sorted by: however k bits differ, some table's key has none of them.

Source: Manku, Jain, Das Sarma 2007, *Detecting near-duplicates for web crawling*, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb, ldexp, log2

from gpulsh.params import MOST_TABLES


@dataclass(frozen=True)
class Design:
    """`keys`: of each table the bits of its key, as an integer whose bit i is that of bit i."""

    keys: tuple[int, ...]

    def candidates(self, count: int) -> float:
        """How many of `count` signatures of even bits share a key with another, over all tables."""
        return sum(ldexp(count, -key.bit_count()) for key in self.keys)

    def cost(self, count: int) -> float:
        """The comparisons of a search for all pairs: to sort every table, and of candidates."""
        return count * (len(self.keys) * log2(max(count, 2)) + self.candidates(count))


def designs(bits: int, distance: int) -> dict[int, Design]:
    """All designs by the number of their tables.

    >>> {tables: design.keys[0].bit_count() for tables, design in designs(64, 3).items()}
    {4: 16, 10: 26, 20: 32, 16: 28}
    """
    found: dict[int, Design] = {}
    for blocks in range(distance + 1, min(distance + 3, bits) + 1):
        if comb(blocks, distance) <= MOST_TABLES:
            found.setdefault(comb(blocks, distance), Design(tuple(_plain(bits, distance, blocks))))
    tables = (distance + 1) ** 2
    if tables <= MOST_TABLES and bits // (distance + 1) >= 2:
        found.setdefault(tables, Design(tuple(_twice(bits, distance + 1))))
    return found


def _plain(bits: int, distance: int, blocks: int) -> Iterator[int]:
    """All but `distance` of the blocks."""
    for chosen in combinations(_blocks(range(bits), blocks), blocks - distance):
        yield sum(map(_mask, chosen))


def _twice(bits: int, blocks: int) -> Iterator[int]:
    """One of the blocks, and one of as many that the rest is cut into."""
    for first in _blocks(range(bits), blocks):
        rest = [bit for bit in range(bits) if bit not in first]
        for second in _blocks(rest, blocks):
            yield _mask(first) | _mask(second)


def _blocks(positions: Sequence[int], count: int) -> list[Sequence[int]]:
    """As equal as they can be."""
    cuts = [-(-len(positions) * i // count) for i in range(count + 1)]
    return [positions[start:stop] for start, stop in pairwise(cuts)]


def _mask(positions: Sequence[int]) -> int:
    return sum(1 << position for position in positions)
