"""What an index answers: arrays of equal length, a row a document or pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Arrays, Numbers, Values
from gpulsh.display import html_table

FIRST = 10  # rows of an answer that a notebook shows


class _Answer(Arrays):
    """Arrays of equal length, a row a document or pair."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield each row, as Python's own values in the order of the fields."""
        return zip(*(column.tolist() for _, column in self._shown()), strict=True)

    def _repr_html_(self) -> str:
        names, columns = zip(*self._shown(), strict=True)
        return html_table(self._caption(), names, zip(*(column[:FIRST].tolist() for column in columns), strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class Matches(_Answer):
    """Held documents similar to asked ones, by position, the most similar first, ties to the earlier inserted.

    `positions` int64 [m], `keys` int64 or object [m], `similarity` float64 [m]: exact Jaccard, or by containment how
    much of the asked one the held one contains. Iterated, it gives (position, key, similarity) of each.
    """

    positions: Numbers
    keys: Values
    similarity: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(_Answer):
    """Similar held documents, each pair once: `first` and `second` keys [m], in the order they came in; `similarity`
    float64 [m], exact Jaccard, or by containment how much of the second the first contains. Iterated, it gives
    (first, second, similarity) of each.
    """

    first: Values
    second: Values
    similarity: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, eq=False, repr=False)
class Added(_Answer):
    """What `Index.add` decided: `keep` bool [n], `duplicate_of` keys [n] (its own where kept), `similarity` f32 [n]."""

    keep: NDArray[np.bool_]
    duplicate_of: Values
    similarity: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.keep)
