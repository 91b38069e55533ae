"""How many documents each kept one represents. Runs in memory, runs over files and indexes use these definitions.

    copies        documents dropped for it with the same words in the same order, or with the same key (`--key`)
    near          all other documents dropped for it: near-duplicates, and copies of these
    component     documents in its connected component of verified pairs, itself included
    sources       different sources of it and the documents dropped for it; a null source does not count
    source_names  the names of these sources, ascending
    first_seen    the earliest date of it and the documents dropped for it; null if none has a date
    last_seen     the latest

`copies` and `near` have evidence: gpulsh compared the text or the key of each of these documents with the kept one, or
with a document dropped for it (`resolve="kept"`, `verify="exact"`). Every document is kept or counted once,
so the sum of 1 + copies + near is the number of documents. `component` is the `minhash_cluster_size` of FineWeb-2
(Penedo et al. 2025, arXiv 2506.20920). It also counts documents that are connected only through others, so it is at
least 1 + copies + near. Two kept documents of one component both have its size. With `resolve="components"`, one
document of a component stays, and component = 1 + copies + near, unless some documents are protected.

A dropped document represents none: all its counts but `component` are null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.ragged import first_of_runs, mask_of, offsets

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN = -1  # the number of a null source
NO_DATE = np.iinfo(np.int64).min
LATEST = np.iinfo(np.int64).max


class Counts(NamedTuple):
    """int64 [n] each, by document; the values of dropped documents have no meaning."""

    copies: Numbers
    near: Numbers
    component: Numbers


def count(target: Numbers, exact_copy: NDArray[np.bool_], cluster: Numbers) -> Counts:
    """The counts of n documents, from the decision about them.

    `target` [n] is the place of each document's witness, or its own place if it is kept. `exact_copy` [n] marks
    documents with the words of their witness. `cluster` [n] is the number of each document's component.

    >>> count(np.array([0, 0, 0, 3]), np.array([False, True, False, False]), np.array([0, 0, 0, 0]))
    Counts(copies=array([1, 0, 0, 0]), near=array([1, 0, 0, 0]), component=array([4, 4, 4, 4]))
    """
    documents = len(target)
    dropped = target != np.arange(documents)
    copies = np.bincount(target[dropped & exact_copy], minlength=documents)
    near = np.bincount(target[dropped & ~exact_copy], minlength=documents)
    sizes = np.bincount(cluster, minlength=documents) if documents else cluster
    return Counts(copies, near, sizes[cluster])


@dataclass(frozen=True)
class Sightings:
    """Where and when n documents were seen."""

    source: Numbers | None  # [n] the number of each one's source in `names`, UNKNOWN if it is null; None: all have one
    names: pa.Array  # ascending
    date: Numbers | None  # [n] microseconds since 1970 in UTC, NO_DATE if it is null

    @classmethod
    def from_one_source(cls, date: Numbers | None = None) -> Sightings:
        """All documents are of one source, which has no name."""
        import pyarrow as pa

        return cls(None, pa.array([], pa.string()), date)

    def select(self, rows: Numbers) -> Sightings:
        """The sightings of some documents."""
        source = None if self.source is None else self.source[rows]
        return Sightings(source, self.names, None if self.date is None else self.date[rows])


@dataclass(frozen=True)
class KeptSightings:
    """Where and when k kept documents were seen, with the documents dropped for them."""

    sources: Numbers  # [k]
    source_names: pa.Array  # [k] lists of strings
    first: Numbers  # [k] microseconds, or NO_DATE
    last: Numbers


def kept_sightings(target: Numbers, kept: Numbers, sightings: Sightings) -> KeptSightings:
    """Where and when the documents at `kept` [k] were seen; `target` is as in `count`."""
    import pyarrow as pa

    from gpulsh.io.arrow.buffers import to_arrow

    if sightings.source is None:
        sources, found = np.ones(len(kept), np.int64), np.empty(0, np.int64)
        start = np.zeros(len(kept) + 1, np.int64)
    else:
        names = len(sightings.names) + 1  # UNKNOWN is the first
        held = np.sort(target * names + (sightings.source + 1))
        held = held[first_of_runs(held)]
        held = held[(held % names > 0) & mask_of(kept, len(target))[held // names]]
        sources = np.bincount(held // names, minlength=len(target))[kept]
        start, found = offsets(sources), held % names - 1
    first = last = np.full(len(kept), NO_DATE)
    if sightings.date is not None and len(kept):
        order = np.argsort(target, kind="stable")
        begins = np.flatnonzero(first_of_runs(target[order]))
        group, date = np.searchsorted(target[order[begins]], kept), sightings.date[order]
        last = np.maximum.reduceat(date, begins)[group]
        earliest = np.minimum.reduceat(np.where(date == NO_DATE, LATEST, date), begins)[group]
        first = np.where(last == NO_DATE, NO_DATE, earliest)
    listed = sightings.names.take(to_arrow(found))
    return KeptSightings(sources, pa.ListArray.from_arrays(to_arrow(start.astype(np.int32)), listed), first, last)


def dates(microseconds: Numbers) -> pa.Array:
    """The dates as a pyarrow.Array of timestamp[us, tz=UTC]."""
    import pyarrow as pa

    from gpulsh.io.arrow.buffers import to_arrow

    return to_arrow(microseconds, microseconds == NO_DATE).view(pa.timestamp("us", "UTC"))
