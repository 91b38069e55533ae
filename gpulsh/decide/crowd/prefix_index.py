"""Who shares a prefix shingle: an index that grows block by block, and the matches of a block in it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.decide.crowd.join import LARGEST_JOIN
from gpulsh.decide.crowd.prefixes import Entries
from gpulsh.lsh.pairs import distinct_of
from gpulsh.ragged import cuts, offsets, within_runs

LARGEST_MERGE = 1 << 20  # entries of an index, at least


class PrefixIndex:
    """Which documents have a shingle in their prefix: sorted runs, merged when the newer outgrow the older.

    Merging takes four times what is merged: of many entries an eighth at most is merged at once.
    """

    def __init__(self) -> None:
        self.runs: list[Entries] = []  # sorted
        self._count = 0
        self._documents: list[Numbers] = []

    def add(self, entries: Entries) -> None:
        """Take in sorted entries of documents that have none in it."""
        if len(entries.shingles) == 0:
            return
        self._documents.append(entries.owners())
        self._count += len(entries.shingles)
        most = max(LARGEST_MERGE, self._count // 8)
        merged = [entries]
        while self.runs and sum(len(run.shingles) for run in merged) * 2 > len(self.runs[-1].shingles):
            if sum(len(run.shingles) for run in (*merged, self.runs[-1])) > most:
                break
            merged.append(self.runs.pop())
        merged.reverse()
        shingles, documents = ([getattr(run, name) for run in merged] for name in ("shingles", "documents"))
        del entries, merged
        self.runs.append(Entries(np.concatenate(shingles), np.concatenate(documents)).sorted())

    def documents(self) -> Numbers:
        """int64: the documents with a shingle in the index, ascending."""
        return np.concatenate([np.empty(0, np.int64), *self._documents])


class Matches:
    """Where the shingles of `queries` stand in the runs of `index`; `count` matches in all.

    There may be `enough`, and then they are counted no further, or more than `most`, and then they are `too_many` and
    none is held.
    """

    def __init__(self, index: PrefixIndex, queries: Entries, enough: int | None, most: int | None) -> None:
        self.queries, self.count = queries, 0
        self.enough = self.too_many = False
        self._places: list[tuple[NDArray[np.uint32], Numbers, Numbers, Numbers]] = []
        for run in index.runs:
            first = np.searchsorted(run.shingles, queries.shingles, side="left")
            met = first < len(run.shingles)
            met[met] = run.shingles[first[met]] == queries.shingles[met]
            asked = np.flatnonzero(met)
            first = first[asked]
            count = np.searchsorted(run.shingles, queries.shingles[asked], side="right") - first
            self.count += int(count.sum())
            self.enough = enough is not None and self.count >= enough
            if self.enough:
                break
            self._places.append((run.documents, asked, first, count))
            self.too_many = most is not None and self.count > most
            if self.too_many:
                self._places.clear()

    def packed_pairs(self) -> Iterator[NDArray[np.uint64]]:
        """Pairs (known, asking), packed, of at most LARGEST_JOIN matches at a time."""
        for documents, asked, first, count in self._places:
            for begin, end in cuts(offsets(count), LARGEST_JOIN):
                known = documents[np.repeat(first[begin:end], count[begin:end]) + within_runs(count[begin:end])]
                asking = np.repeat(self.queries.documents[asked[begin:end]], count[begin:end])
                yield distinct_of(known, asking)
