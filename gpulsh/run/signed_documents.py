"""What stays in memory of every document between signing and deciding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulsh.account.funnel import Funnel
from gpulsh.arrays import Array
from gpulsh.backends.parts import in_part
from gpulsh.backends.protocol import Backend


class ArrivingRows:
    """Rows that arrive in batches and stay where, and as, the backend left them."""

    def __init__(self, dtype: type[np.generic], *columns: int) -> None:
        self._empty = np.empty((0, *columns), dtype)
        self._chunks: list[Array] = []

    def append(self, rows: Array) -> None:
        """Rows [m, columns], of NumPy or of the backend's array module."""
        self._chunks.append(rows)

    def whole(self, ops: Backend) -> Array:
        """All rows in the backend's memory; no copy where they lie in it as one."""
        moved = [ops.asarray(chunk) for chunk in self._chunks]
        return moved[0] if len(moved) == 1 else np.concatenate(moved or [ops.asarray(self._empty)])

    def column(self, number: int) -> Iterator[Array]:
        """A column in pieces, as they lie."""
        return (chunk[:, number] for chunk in self._chunks)


@dataclass(frozen=True)
class SignedDocuments:
    """What is known of n documents, and the counts so far."""

    digests: ArrivingRows  # uint64 [n, bands]
    exact: ArrivingRows  # uint64 [n, 2]
    filled: Array  # bool [n] in the backend's memory: whether a document has a shingle
    funnel: Funnel


class ParticipatingDigests:
    """`lsh.collisions.Digests` of the documents that `takes_part`, bool [n] in the backend's memory, marks."""

    ascending = True

    def __init__(self, digests: ArrivingRows, bands: int, takes_part: Array, ops: Backend) -> None:
        self._digests, self._takes_part, self._ops = digests, takes_part, ops
        self.documents, self.bands = len(takes_part), bands
        self._found: tuple[list[Array], Array] | None = None  # rows of each piece, and numbers: the same in every band

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests of a band that lie in one of `parts` ranges, and the documents' numbers, ascending."""
        if parts > 1:  # then memory is scarce
            self._found = None
            return self._in_part(band, part, parts)
        rows, ids = self._found = self._found or self._of_all_bands()
        pieces = zip(self._digests.column(band), rows, strict=True)
        found = [self._ops.asarray(piece)[chosen] for piece, chosen in pieces]
        return found[0] if len(found) == 1 else np.concatenate([self._none(np.uint64), *found]), ids

    def _of_all_bands(self) -> tuple[list[Array], Array]:
        rows, ids, start = [], [self._none(np.int64)], 0
        for piece in self._digests.column(0):
            rows.append(np.flatnonzero(self._takes_part[start : start + len(piece)]))
            ids.append(rows[-1] + np.int64(start))
            start += len(piece)
        return rows, np.concatenate(ids)

    def _in_part(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        digests, ids, start = [self._none(np.uint64)], [self._none(np.int64)], 0
        for piece in self._digests.column(band):
            column = self._ops.asarray(piece)
            rows = np.flatnonzero(self._takes_part[start : start + len(column)] & in_part(column, part, parts))
            digests.append(column[rows])
            ids.append(rows + np.int64(start))
            start += len(column)
        return np.concatenate(digests), np.concatenate(ids)

    def _none(self, dtype: type[np.generic]) -> Array:
        return self._ops.asarray(np.empty(0, dtype))
