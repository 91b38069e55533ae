"""Look up the documents of an index at one moment, across its segments: by digest, exact hash, key or number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.index.evidence.blocks import NO_SETS, rows_by_place
from gpulsh.index.evidence.places import Source
from gpulsh.index.evidence.texts import TextRereader
from gpulsh.index.filters import find_members, find_members_by_filter
from gpulsh.index.groups import Group, groups_of
from gpulsh.index.segment import KEY_TYPES, MANY, NO_NUMBERS, Keys, Segment, equal_pairs, find_runs, is_in
from gpulsh.ragged import find_sorted, first_of_runs, select_rows

ABSENT = -1  # instead of a document's number
LOOKED_UP_AT_ONCE = 1 << 18  # hashes of dropped documents at once


@dataclass(eq=False)
class MetSets:
    """The fingerprints of held documents that the last batch of a call met, and that the next ones will meet.

    The next batch meets many of the last again, such as pages of one template. To read one document, gpulsh decodes a
    whole block, or reads its text again, some files from their beginning.
    """

    max_bytes: int  # of a batch's, and of those ahead
    last: tuple[Numbers, Fingerprints] = (NO_NUMBERS, NO_SETS)  # ascending numbers and their sets
    ahead: tuple[Numbers, Fingerprints] = (NO_NUMBERS, NO_SETS)

    def take(self, snapshot: Snapshot, held: Numbers, ops: Backend) -> Fingerprints:
        """The fingerprints of `held` [h], ascending, which replace those of the last batch."""
        parts, places, left = list[Fingerprints](), list[Numbers](), np.arange(len(held))
        for numbers, sets in (self.last, self.ahead):
            known, at = find_sorted(numbers, held[left])
            if len(known):
                parts.append(select_rows(sets, at))
                places.append(left[known])
                left = np.delete(left, known)
        if len(left) or not parts:
            parts.append(snapshot.fingerprints(held[left], ops))
            places.append(left)
        found = rows_by_place(parts, places)
        self.last = held, found
        return found

    def read_ahead(self, snapshot: Snapshot, held: Numbers, ops: Backend) -> None:
        """Read the fingerprints of `held` [h], ascending, which the next batches will meet."""
        self.ahead = held, self.take(snapshot, held, ops)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All documents of an index at one moment, which never changes; segments ascend by number.

    A document is live unless it or its witness was removed. Columns are searched in place, so only the rows that are
    found take memory.
    """

    segments: Sequence[Segment] = ()
    removed: Numbers = field(default_factory=lambda: NO_NUMBERS)  # ascending
    groups: Sequence[Group] = ()  # those with common filters
    next_number: int = 0
    kind: str | None = None  # of the keys
    sources: Sequence[Source] = ()  # of the texts, with evidence at the source
    rereader: TextRereader | None = None  # reads the texts of segments without fingerprints
    met: MetSets | None = None  # during a call

    @property
    def reads_texts(self) -> bool:
        """Whether texts of some documents are read again."""
        return any(segment.fingerprints is None for segment in self.segments)

    @property
    def reads_files(self) -> bool:
        """Whether fingerprints of some documents are not in memory."""
        return any(not isinstance(segment.fingerprints, Fingerprints) for segment in self.segments)

    def documents_with(self, bands: Numbers, digests: NDArray[np.uint64]) -> tuple[Numbers, Numbers]:
        """Held documents with digests [m], ascending by `bands` [m], then digest: places [k] and numbers [k]."""
        places, numbers = [NO_NUMBERS], [NO_NUMBERS]
        for group in groups_of(self.segments, self.groups):
            own_bands, own_digests, passed = bands, digests, None
            if group.filters:
                passed = find_members_by_filter(group.filters, bands, digests, together=True)
                own_bands, own_digests = bands[passed], digests[passed]
            for segment in group.segments if len(own_digests) else ():
                place, number = segment.documents_with(own_bands, own_digests)
                if len(place):
                    alive = ~is_in(number, self.removed)
                    places.append(place[alive] if passed is None else passed[place[alive]])
                    numbers.append(number[alive])
            if len(digests) >= MANY:
                group.release()
        return np.concatenate(places), np.concatenate(numbers)

    def frequencies(self, digests: NDArray[np.uint64]) -> Numbers:
        """int64 [m]: how many documents have ascending digests [m] in the first band, removed ones included."""
        counts = np.zeros(len(digests), np.int64)
        for group in groups_of(self.segments, self.groups):
            passed = np.arange(len(digests))
            if group.filters:
                passed = find_members(group.filters[0], digests, together=True)
            own = digests[passed]
            for segment in group.segments if len(own) else ():
                words = segment.filters[0] if segment.filters else None
                place, _, count = find_runs(segment.band(0).digest, own, words)
                counts[passed[place]] += count
        self.release(len(digests))
        return counts

    def band(self, band: int) -> tuple[NDArray[np.uint64], Numbers]:
        """The digests [k] of all held documents in `band`, and the documents' numbers [k]."""
        digests, numbers = [np.empty(0, np.uint64)], [NO_NUMBERS]
        for segment in self.segments:
            digest, document = segment.band(band)
            number = document + np.int64(segment.base)
            alive = ~is_in(number, self.removed)
            digests.append(digest[alive])
            numbers.append(number[alive])
        return np.concatenate(digests), np.concatenate(numbers)

    def first_copies(self, exact: NDArray[np.uint64]) -> tuple[Numbers, NDArray[np.float64], NDArray[np.bool_]]:
        """The witness of the first live document with each hash [m, 2], its similarity, and whether both are the same.

        The witness is ABSENT if no document has the hash.
        """
        order = np.lexsort((exact[:, 1], exact[:, 0]))
        fresh = first_of_runs(exact[order, 0]) | first_of_runs(exact[order, 1])
        once = exact[order[fresh]]  # of many copies of a page only one is looked up
        halves = np.ascontiguousarray(once[:, 0])
        witness, similarity, is_own = np.full(len(once), ABSENT), np.zeros(len(once)), np.zeros(len(once), bool)
        for group in reversed([*groups_of(self.segments, self.groups)]):  # earlier segments overwrite later ones
            passed = find_members(group.filters[-1], halves, together=True) if group.filters else np.arange(len(halves))
            for segment in reversed(group.segments) if len(passed) else ():
                documents = segment.documents
                place, row = segment.first_live_copies(once[passed], self.removed)
                place = passed[place]
                witness[place], similarity[place] = documents.witness[row], documents.similarity[row]
                is_own[place] = documents.witness[row] == documents.number[row]
        which = np.empty(len(exact), np.int64)
        which[order] = np.cumsum(fresh) - 1
        return witness[which], similarity[which], is_own[which]

    def release(self, looked_up: int) -> None:
        """Release the pages that were read from files, if `looked_up` documents read many."""
        if looked_up >= MANY:
            for segment in self.segments:
                segment.release()

    def find(self, keys: Keys) -> Numbers:
        """The number of the live document with each key [m]; ABSENT if there is none."""
        numbers = np.full(len(keys.key), ABSENT)
        for segment in self.segments:
            assert segment.keys is not None
            place, found = equal_pairs(segment.keys.key_hash, keys.key_hash)
            if len(place):
                place, row = keys.key_row[place], segment.keys.key_row[found]
                known = segment.keys_at(row)
                if known.type == keys.key.type:
                    equal = np.asarray(pc.equal(known, keys.key.take(pa.array(place))), np.bool_)
                    chosen = equal & segment.is_live(self.removed, row)
                    numbers[place[chosen]] = segment.documents.number[row[chosen]]
        return numbers

    def keys(self, numbers: Numbers) -> pa.Array:
        """The keys of documents by their numbers."""
        if len(numbers) == 0:
            return pa.array([], KEY_TYPES[self.kind or "string"])
        parts, places = [], []
        for segment, here, rows in self._segment_rows(numbers):
            parts.append(segment.keys_at(rows))
            places.append(here)
        self.release(len(numbers))
        if len(parts) == 1:
            return parts[0]
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))

    def sizes(self, numbers: Numbers) -> Numbers:
        """int64 [m]: the number of fingerprints of each held document."""
        sizes = np.zeros(len(numbers), np.int64)
        for segment, here, rows in self._segment_rows(numbers):
            sizes[here] = segment.documents.size[rows]
        return sizes

    def fingerprints(self, numbers: Numbers, ops: Backend) -> Fingerprints:
        """The unique fingerprints of held documents, in that order, in host memory.

        InputError if a text that must be read again is gone or has changed.
        """
        parts, places = [], []
        for segment, here, rows in self._segment_rows(numbers):
            if segment.fingerprints is not None:
                parts.append(segment.sets(rows))
            else:
                assert self.rereader is not None
                parts.append(self.rereader.fingerprints(segment, rows, ops))
            places.append(here)
        return rows_by_place(parts, places)

    def counts(self) -> tuple[int, int]:
        """The numbers of live documents that are held, and that were dropped."""
        if not len(self.removed):
            held = sum(segment.held_count for segment in self.segments)
            return held, sum(map(len, self.segments)) - held
        held = dropped = 0
        for segment in self.segments:
            live = segment.is_live(self.removed)
            own = segment.documents.number == segment.documents.witness
            held, dropped = held + int((live & own).sum()), dropped + int((live & ~own).sum())
        return held, dropped

    def occurrences(self) -> tuple[Numbers, Numbers, Numbers]:
        """Held documents, ascending by number, and how many exact copies and others were dropped for each: int64 [h].

        No file holds these counts. They follow from the decisions and exact hashes of dropped documents, so removed
        documents do not count, and indexes of earlier versions have them, too.
        """
        live = [segment.is_live(self.removed) for segment in self.segments]
        parts = [NO_NUMBERS]
        for segment, alive in zip(self.segments, live, strict=True):
            documents = segment.documents
            parts.append(documents.number[alive & (documents.witness == documents.number)])
        held = np.concatenate(parts)
        dropped, copies = np.zeros(len(held), np.int64), np.zeros(len(held), np.int64)
        for segment, alive in zip(self.segments, live, strict=True):
            documents, hashes = segment.documents, segment.hashes
            is_dropped = alive & (documents.witness != documents.number)
            np.add.at(dropped, np.searchsorted(held, documents.witness[is_dropped]), 1)
            for start in range(0, len(hashes.row), LOOKED_UP_AT_ONCE):
                hash_0, hash_1, row = (column[start : start + LOOKED_UP_AT_ONCE] for column in hashes)
                some = is_dropped[row]
                witness = documents.witness[row[some]]
                first, _, is_own = self.first_copies(np.stack([hash_0[some], hash_1[some]], axis=1))
                np.add.at(copies, np.searchsorted(held, witness[is_own & (first == witness)]), 1)
                self.release(LOOKED_UP_AT_ONCE)
        return held, copies, dropped - copies

    def _segment_rows(self, numbers: Numbers) -> Iterator[tuple[Segment, Numbers, Numbers]]:
        """Each segment that has some of `numbers`, their places in `numbers`, and their rows."""
        first, last = (numbers.min(), numbers.max()) if len(numbers) else (0, ABSENT)
        for segment in self.segments:
            own = segment.documents.number
            if len(own) == 0 or own[-1] < first or own[0] > last:
                continue
            rows = np.searchsorted(own, numbers.astype(own.dtype, copy=False))  # another type would copy all of `own`
            here = np.flatnonzero(rows < len(own))
            here = here[own[rows[here]] == numbers[here]]
            if len(here):
                yield segment, here, rows[here]
