"""The answers of an index: arrays of equal length, one row for each document or pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Arrays, Numbers, Values, html_table

MAX_ROWS = 10  # rows of an answer that a notebook shows


class Answer(Arrays):
    """Arrays of equal length, one row per document or pair."""

    def __len__(self) -> int:
        return len(next(column for _, column in self._repr_fields()))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield each row, as Python's own values in the order of the fields."""
        return zip(*(column.tolist() for _, column in self._repr_fields()), strict=True)

    def _repr_html_(self) -> str:
        names, columns = zip(*self._repr_fields(), strict=True)
        return html_table(self._caption(), names, zip(*(column[:MAX_ROWS].tolist() for column in columns), strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class Matches(Answer):
    """Similar held documents of each queried text, the most similar first, ties to the one inserted first.

    `positions` int64 [m], `keys` int64 or object [m], `similarity` float64 [m]: exact Jaccard, or by containment the
    share of the text that the held document contains. Iterating gives (position, key, similarity).
    """

    positions: Numbers
    keys: Values
    similarity: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Stretches(Answer):
    """Stretches of a text whose shingles a held document has, by document in the order of insertion, then by place.

    `keys` int64 or object [m]; `start`, `stop` int64 [m], bytes of the text as UTF-8; `tokens` int64 [m], the tokens
    of each. Iterating gives (key, start, stop, tokens).
    """

    keys: Values
    start: Numbers
    stop: Numbers
    tokens: Numbers


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Answer):
    """Similar held documents, each pair once: `first` and `second` keys [m], in the order of insertion.

    `similarity` float64 [m] is exact Jaccard, or by containment the share of the second that the first contains.
    Iterating gives (first, second, similarity).
    """

    first: Values
    second: Values
    similarity: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Added(Answer):
    """Decisions of `Index.add`: `keep` bool [n], `duplicate_of` keys [n] (its own if kept), `similarity` f32 [n]."""

    keep: NDArray[np.bool_]
    duplicate_of: Values
    similarity: NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class Counts(Answer):
    """How often each held document occurred, in the order of insertion.

    `keys` int64 or object [m]; `copies` int64 [m], documents that were dropped as its exact copies; `near` int64 [m],
    all others that were dropped for it. So it represents 1 + copies + near documents. Iterating gives (key, copies,
    near).
    """

    keys: Values
    copies: Numbers
    near: Numbers
