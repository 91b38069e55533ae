"""The digests of a segment's held documents: band by band in a file, all bands together in memory.

Together they are one column to sort, search and merge. Of a document alone nothing costs more than the calls, and there
are twenty bands as a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.index.segments.filters import Words, make_filter, passing, passing_own
from gpulsh.ragged import run_bounds, within_runs

NONE = np.empty(0, np.int64)
MANY = 1 << 8  # digests that are looked up at once, from which on a filter of those in memory pays
FEW, LONG = 16, 1 << 14  # values and hashes of a column up to, and from which on, it is not searched in halves


class Band(NamedTuple):
    """Digests of one band, ascending, and the numbers of the documents that have them, ascending where equal."""

    digest: NDArray[np.uint64]
    document: Numbers


@dataclass(frozen=True, eq=False)
class HeldBands(Sequence[Band]):
    """Digests [k] of `bands` bands, ascending; equal ones of a band are ascending by document."""

    bands: int
    digest: NDArray[np.uint64]
    band: NDArray[np.uint16]
    document: Numbers

    @classmethod
    def of(cls, digests: NDArray[np.uint64], documents: Numbers) -> HeldBands:
        """Digests [n, bands] of documents whose numbers [n] ascend."""
        count = digests.shape[1]
        values = digests.T.ravel()
        order = np.argsort(values, kind="stable")
        rows = max(len(documents), 1)
        return cls(count, values[order], (order // rows).astype(np.uint16), documents[order % rows])

    @classmethod
    def joined(cls, parts: Sequence[HeldBands]) -> HeldBands:
        """Those of several, whose documents ascend."""
        digest, band, document = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("digest", "band", "document")
        )
        order = np.argsort(digest, kind="stable")
        return cls(parts[0].bands, digest[order], band[order], document[order])

    @cached_property
    def words(self) -> Words:
        """The filter of all digests; a digest is looked up in it in less time than among them."""
        return make_filter(self.digest)

    def __len__(self) -> int:
        return self.bands

    def __getitem__(self, band: Any) -> Any:
        if not 0 <= band < self.bands:
            raise IndexError(band)
        if self.bands == 1:
            return Band(self.digest, self.document)
        own = np.flatnonzero(self.band == band)
        return Band(self.digest[own], self.document[own])


def holders(
    bands: Sequence[Band], filters: Sequence[Words] | None, asked: Numbers, values: NDArray[np.uint64]
) -> tuple[Numbers, Numbers]:
    """Who has the digests `values` [m], in the bands `asked` [m], which ascend: places in these [k] and numbers [k]."""
    if isinstance(bands, HeldBands):
        place, found = matches(bands.digest, values, bands.words if len(values) >= MANY else None)
        if len(place) == 0:
            return place, found
        same = bands.band[found] == asked[place]
        return place[same], bands.document[found[same]]
    places, numbers = [NONE], [NONE]
    met = passing_own(filters, asked, values) if filters else np.arange(len(values))
    for start, stop in run_bounds(asked[met]):
        some = met[start:stop]
        band = bands[asked[some[0]]]
        place, found = matches(band.digest, values[some])
        places.append(some[place])
        numbers.append(band.document[found])
    return np.concatenate(places), np.concatenate(numbers)


def matches(
    known: NDArray[np.uint64], values: NDArray[np.uint64], words: Words | None = None
) -> tuple[Numbers, Numbers]:
    """All (place in `values`, place in `known`) of equal ones, both int64 [k], by the first, then by the second."""
    met, first, count = runs(known, values, words)
    if len(met) == 0:
        return met, first
    return np.repeat(met, count), np.repeat(first, count) + within_runs(count)


def runs(
    known: NDArray[np.uint64], values: NDArray[np.uint64], words: Words | None = None
) -> tuple[Numbers, Numbers, Numbers]:
    """Which of `values` are in `known`; both ascend. Of each the first place there, and how many are equal to it.

    `known` is not looked at where its filter of `words` rules a value out.
    """
    met = None
    if words is not None:
        met = passing(words, values)
        values = values[met]
    if len(values) == 0 or len(known) == 0:
        return NONE, NONE, NONE
    first = _places(known, values)
    equal = (known.take(first, mode="clip") == values).nonzero()[0]  # as `flatnonzero`, at half its price for a few
    if len(equal) == 0:
        return NONE, NONE, NONE
    first, values = first[equal], values[equal]
    count = np.maximum(known.searchsorted(values, side="right") - first, 0)  # of what ascends it is
    return (equal if met is None else met[equal]), first, count


def _places(known: NDArray[np.uint64], values: NDArray[np.uint64]) -> Numbers:
    """`known.searchsorted(values)`; for a few it looks only near where hashes, which are spread evenly, should be.

    So they touch a page or two of a file each, not one for each of its halves.
    """
    count = len(known)
    if len(values) > FEW or count < LONG:
        return known.searchsorted(values)
    reach, places = 2 * isqrt(count), np.empty(len(values), np.int64)
    for number, value in enumerate(values):
        expected = int(value) * count >> 64
        start, stop = max(expected - reach, 0), min(expected + reach, count)
        place = start + int(known[start:stop].searchsorted(value))
        if (place == start > 0) or (place == stop < count):  # or beyond
            place = int(known.searchsorted(value))
        places[number] = place
    return places
