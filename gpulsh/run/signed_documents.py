"""What stays in memory of every document between signing and deciding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulsh.account.funnel import Funnel
from gpulsh.arrays import Array, Numbers
from gpulsh.backends.parts import in_part
from gpulsh.backends.protocol import NO_DIGEST, Backend


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

    def fill(self, rows: Numbers, value: np.generic, ops: Backend) -> None:
        """Set all of the `rows`, ascending."""
        start = 0
        for chunk in self._chunks:
            here = rows[slice(*np.searchsorted(rows, [start, start + len(chunk)]))] - start
            chunk[here if isinstance(chunk, np.ndarray) else ops.asarray(here)] = value
            start += len(chunk)

    def let_go(self) -> None:
        """Of all of them: they are not asked for again."""
        self._chunks.clear()


@dataclass(frozen=True)
class SignedDocuments:
    """What is known of n documents, and the counts so far."""

    digests: ArrivingRows  # uint64 [n, bands]
    exact: ArrivingRows  # uint64 [n, 2]
    filled: Array  # bool [n] in the backend's memory: whether a document has a shingle
    funnel: Funnel


class DigestsByBand:
    """`lsh.collisions.Digests` of all `documents`; who has no digest meets nobody."""

    ascending = True

    def __init__(self, digests: ArrivingRows, bands: int, documents: int, ops: Backend) -> None:
        self._digests, self._ops = digests, ops
        self.documents, self.bands = documents, bands

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        """The digests of a band that lie in one of `parts` ranges, and the documents' numbers, ascending."""
        none = self._ops.asarray(np.empty(0, np.uint64))
        pieces = map(self._ops.asarray, self._digests.column(band))
        if parts == 1:
            return np.concatenate([none, *pieces]), np.arange(self.documents, like=none)
        digests, ids, start = [none], [none.view(np.int64)], 0
        for column in pieces:
            rows = np.flatnonzero((column != np.uint64(NO_DIGEST)) & in_part(column, part, parts))
            digests.append(column[rows])
            ids.append(rows + np.int64(start))
            start += len(column)
        return np.concatenate(digests), np.concatenate(ids)
