"""The documents of an index by number, in segments in memory and in files: add, find, forget and commit them.

`gpulsh.Index` is for users with texts and keys in memory. Jobs over files use a `Collection`: any number of documents,
in batches of a source, followed by their keys.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Values
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.protocol import Backend
from gpulsh.checks import check_integer
from gpulsh.errors import ParameterError
from gpulsh.index.admission import SignedDocuments, admit, find_similar, held_candidates, hold_all
from gpulsh.index.evidence.places import Origin, locator
from gpulsh.index.evidence.texts import Read, TextRereader
from gpulsh.index.folder import Folder, Manifest
from gpulsh.index.groups import make_groups
from gpulsh.index.keys import NAMES, KeyNames, KeyStream, key_kind, refuse_kind, refuse_repeats, same_key, sorted_keys
from gpulsh.index.merging import merge_in_memory, merge_small, merge_to_files
from gpulsh.index.segment import NO_NUMBERS, Documents, Keys, Segment, remove_files, with_keys
from gpulsh.index.snapshot import ABSENT, MetSets, Snapshot
from gpulsh.io.rows import TextSource, normalized
from gpulsh.lsh.signing import sign_by_method
from gpulsh.method import Method
from gpulsh.params import EvidenceName
from gpulsh.ragged import merged_distinct, sorted_distinct, total_size
from gpulsh.secret import evidence_keys
from gpulsh.stats.stages import Funnel, Progress, with_progress
from gpulsh.store.columns import release_memory
from gpulsh.theory import checked_number

NO_PROGRESS = Progress()


class Collection:
    """Documents by number, in input order; their keys are Arrow arrays of one kind.

    A change makes new `contents`, which replace the old ones when they are complete: an error leaves all as it was. A
    reader takes `contents` once, which no change touches, and needs no lock. Callers make one change at a time.
    Segments with more than `spill` bytes in memory are written to the folder, if there is one.
    """

    def __init__(
        self,
        method: Method,
        secret: bytes,
        ops: Backend,
        spill: int,
        evidence: EvidenceName,
        read: Read | None,
    ) -> None:
        self.method, self.ops, self.spill, self.evidence = method, ops, spill, evidence
        self._secret, self.evidence_keys = secret, evidence_keys(secret)
        self.rereader = TextRereader(method, self.evidence_keys, read) if evidence == "source" else None
        self.folder: Folder | None = None
        self.contents, self.changed = Snapshot(rereader=self.rereader), False

    @classmethod
    def open(cls, path: Path, ops: Backend, spill: int, *, check: bool, read: Read | None) -> Self:
        """The collection of the newest commit in a folder."""
        folder, contents = Folder.open(path, contents=check)
        manifest = folder.manifest
        method = Method.from_matching(manifest.parameters)
        found = cls(method, bytes.fromhex(manifest.secret), ops, spill, manifest.evidence, read)
        found.folder, found.contents = folder, replace(contents, rereader=found.rereader)
        return found

    @property
    def path(self) -> Path | None:
        """The folder; None while all is in memory."""
        return self.folder.path if self.folder else None

    def create_folder(self, path: Path) -> None:
        """Use a folder, absent or empty before; nothing is committed yet."""
        self.folder = self._new_folder(path)
        self.changed = True

    def _new_folder(self, path: Path) -> Folder:
        return Folder.create(path, Manifest(self.method.matching(), self._secret.hex(), evidence=self.evidence))

    def begin_change(self) -> None:
        """Become the writer, of the newest commit; OutputError if there is another, or if it would lose changes."""
        if self.folder is not None:
            newer = self.folder.lock(changed=self.changed)
            if newer is not None:
                self.contents = replace(newer, rereader=self.rereader)

    def add(
        self,
        source: TextSource,
        keys: Callable[[], Iterable[pa.Array]],
        *,
        decide: bool,
        tally: Funnel | None = None,
        names: KeyNames = NAMES,
        known: pa.Array | None = None,
        origin: Origin | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> range:
        """Add the documents of `source` and return their numbers; `tally` counts the decisions.

        `keys` is called after the last document was read. It gives all keys in order, in pieces of any length. If all
        keys are `known` before, they are refused before other work is done. With evidence at the source, the index
        holds the fingerprints of new documents until the end; `origin` then locates their texts, and without it only
        the caller knows them. With a folder, memory stays bounded: segments are written once they have `spill` bytes,
        and keys with their segment.
        """
        self.begin_change()
        before, path = self.contents, self.path
        all_keys, kind = None, before.kind
        if known is not None and len(known):
            all_keys, kind = sorted_keys(known), key_kind(known)
            refuse_kind(kind, before.kind)
            self._refuse_known(all_keys, before, 0, names)
        new: list[Segment] = []
        number, tally = before.next_number, tally or Funnel()
        now = self.with_met_sets(before)  # with the new segments, and the filters of their groups
        sources, places_of = locator(origin, before.sources) if self.rereader else (before.sources, None)
        try:
            batches = self.sign_batches(source, progress)
            for batch in self._reading_ahead(batches, now) if decide else batches:
                segment = admit(batch, number, now, tally) if decide else hold_all(batch, number)
                now.release(len(batch))
                number += len(segment)
                new = merge_small([*new, replace(segment, reads_source=self.rereader is not None)], path, self.spill)
                now = replace(now, segments=(*before.segments, *new))
                if new[-1].files and path:
                    now = replace(now, groups=make_groups(now.segments, now.groups, path))
                    release_memory()
            stream = KeyStream(keys(), kind)
            done = 0
            for place, segment in enumerate(new):
                own = all_keys if all_keys is not None and len(new) == 1 else sorted_keys(stream.take(len(segment)))
                if all_keys is None:
                    snapshot = replace(now, segments=(*before.segments, *new[:place]))
                    self._refuse_known(own, snapshot, done, names)
                    snapshot.release(len(own.key))
                places = None if places_of is None else places_of(np.arange(done, done + len(segment)))
                done += len(segment)
                new[place] = with_keys(segment, own, path, places)
                del own, places
                if segment.files:
                    release_memory()
        except BaseException:
            for segment in new:
                if segment.files and path:
                    remove_files(path, segment.name)
            raise
        segments = tuple(merge_small([*before.segments, *new], path, self.spill))
        groups = make_groups(segments, now.groups, path) if path else now.groups
        self.contents = Snapshot(segments, before.removed, groups, number, stream.kind, sources, self.rereader)
        self.changed = True
        return range(before.next_number, number)

    def _refuse_known(self, keys: Keys, snapshot: Snapshot, start: int, names: KeyNames) -> None:
        """The error of `names` if one of the keys, numbered from `start`, is in the index or comes twice."""
        refuse_repeats(keys, start, names)
        numbers = snapshot.find(keys)
        there = np.flatnonzero(numbers != ABSENT)
        if len(there) == 0:
            return
        place, number = int(there[0]), int(numbers[there[0]])
        key = keys.key[place].as_py()
        if number >= self.contents.next_number:
            raise same_key(start + place, key, number - self.contents.next_number, names)
        given = f"{names.place(start + place)}{names.its_key} is {key!r}"
        raise names.error(f"{given}, which is in the index; {names.remedy}")

    def sign_batches(self, source: TextSource, progress: Progress) -> Iterator[SignedDocuments]:
        """The documents of a source with their hashes, batch after batch."""
        method, ops, keys = self.method, self.ops, self.evidence_keys

        def sign(lane: Backend, batch: TextBatch) -> SignedDocuments:
            signed = sign_by_method(batch, method, keys, lane)
            exact, digests, shingles = map(lane.asnumpy, (signed.exact, signed.digests, signed.shingles))
            with_token = np.flatnonzero(shingles)
            return SignedDocuments(batch, exact, digests, with_token, int(shingles.sum()), method, keys, ops)

        with ops.use_device():
            prepare = partial(normalized, form=method.folding.form)
            batches: Iterable[TextBatch] = with_progress(source.batches(ops.sizes().batch), progress, prepare)
            if isinstance(source, Sized) and len(source) == 1:
                batches = [*batches]  # one needs no threads
            yield from map_batches(ops, batches, sign)

    def _reading_ahead(
        self, batches: Iterable[SignedDocuments], snapshot: Snapshot, *, querying: bool = False
    ) -> Iterator[SignedDocuments]:
        """The batches. Texts that several of them meet are read again together, as many as `snapshot.met` may hold."""
        met = snapshot.met
        if met is None or not snapshot.reads_texts:
            yield from batches
            return
        window, held, size = list[SignedDocuments](), NO_NUMBERS, 0
        for batch in batches:
            size += total_size(batch.batch)
            more = held_candidates(batch, snapshot, querying=querying)
            together = merged_distinct([held, more])
            if window and max(size, 8 * int(snapshot.sizes(together).sum())) > met.max_bytes // 2:
                yield from self._met_together(window, held, snapshot)
                together, size = more, total_size(batch.batch)
            window.append(batch)
            held = together
        yield from self._met_together(window, held, snapshot)

    def _met_together(
        self, window: list[SignedDocuments], held: Numbers, snapshot: Snapshot
    ) -> Iterator[SignedDocuments]:
        """The batches of the window, which becomes empty, after those that meet `held` were read."""
        if len(window) > 1 and snapshot.met is not None:
            snapshot.met.read_ahead(snapshot, held, self.ops)
        while window:
            yield window.pop(0)

    def with_met_sets(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot for one call that compares documents: it keeps fingerprints between batches."""
        return replace(snapshot, met=MetSets(self.spill))

    def decisions(self, numbers: range) -> Iterator[Documents]:
        """Yield the decisions on the documents `numbers`, in order, some at a time; removed ones may be left out."""
        for segment in self.contents.segments:
            documents = segment.documents
            first, last = (bisect_left(documents.number, number) for number in (numbers.start, numbers.stop))
            yield documents.where(slice(first, last))

    def find_similar(
        self,
        source: TextSource,
        snapshot: Snapshot,
        threshold: float | None = None,
        top: int | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
        """Documents of `snapshot` similar to documents of a source: positions, numbers, similarity, [m] each.

        The most similar come first, at most `top` for each position, ties to the earlier. The `threshold` is the
        index's own if None. ParameterError for one below it or above 1, and for a `top` below 1.
        """
        if top is not None:
            top = check_integer("top", top, 1, 1 << 62)
        least = self.method.threshold
        threshold = least if threshold is None else checked_number("threshold", threshold)
        if not least <= threshold <= 1:
            raise ParameterError(f"threshold is {threshold!r}, and the index has {least}; give {least} to 1")
        start, snapshot = 0, self.with_met_sets(snapshot)
        found: list[tuple[Values, ...]] = [(NO_NUMBERS, NO_NUMBERS, np.empty(0))]
        for batch in self._reading_ahead(self.sign_batches(source, progress), snapshot, querying=True):
            if start:
                snapshot.release(len(batch))
            rows, numbers, similarity = find_similar(batch, snapshot, top)
            enough = similarity >= threshold
            found.append((rows[enough] + start, numbers[enough], similarity[enough]))
            start += len(batch)
        positions, numbers, similarity = (np.concatenate(column) for column in zip(*found, strict=True))
        return positions, numbers, similarity

    def facts(self) -> Mapping[str, Any]:
        """The output of `gpulsh index info`, as JSON values; `bytes` is the size of the newest commit's files.

        `bytes_per_document` divides it by the documents of these files: held, dropped, and removed since `compact`.
        """
        held, dropped = self.contents.counts()
        files = self.folder.manifest.files() if self.folder else {}
        size, stored = sum(fact.size for fact in files.values()), sum(map(len, self.contents.segments))
        return {
            "documents": held,
            "dropped": dropped,
            "removed": stored - held - dropped,
            "keys": self.contents.kind,
            "segments": len(self.contents.segments),
            "bytes": size,
            "bytes_per_document": round(size / max(stored, 1), 1),
            "evidence": self.evidence,
            "commits": self.folder.manifest.generation if self.folder else 0,
            "parameters": self.method.matching(),
        }

    def forget(self, numbers: Numbers) -> None:
        """Forget live documents, held or dropped. A held document takes the documents dropped for it along."""
        removed, new = self.contents.removed, sorted_distinct(numbers)
        # A sort of all of them would take far longer for one new number.
        removed = np.insert(removed, np.searchsorted(removed, new), new)
        self.contents = replace(self.contents, removed=removed)
        self.changed = True

    def write(self) -> None:
        """Write all segments to its folder, so that a commit that follows takes no time."""
        self.begin_change()
        assert self.folder is not None
        self.contents = self.folder.write(self.contents)

    def commit(self, runs: Mapping[str, tuple[int, int]] | None = None) -> None:
        """Commit to its folder, with the name of each run that added documents, and their first number and the end."""
        self.begin_change()
        assert self.folder is not None
        self.contents = self.folder.commit(self.contents, runs or {})
        self.changed = False

    def save(self, path: Path | None) -> None:
        """Commit all changes, to its own folder or to another one, which is its own from then on."""
        if path is not None and (self.path is None or os.path.realpath(path) != os.path.realpath(self.path)):
            folder = self._new_folder(path)
            loose = tuple(replace(segment, files=None) for segment in self.contents.segments)
            try:
                self.contents = folder.commit(replace(self.contents, segments=loose), {})
            except BaseException:
                folder.abandon()
                raise
            self.close()
            self.folder, self.changed = folder, False
        elif self.folder is None:
            raise ParameterError("path is None, and the index is in memory only; give the path of a folder")
        elif self.changed:
            self.commit()

    def compact(self) -> None:
        """Merge all segments without removed documents; in a folder, commit that and remove the old files."""
        self.begin_change()
        parts, removed = self.contents.segments, self.contents.removed
        if parts:
            whole = merge_to_files(parts, removed, self.path) if self.path else merge_in_memory(parts, removed)
            self.contents = replace(self.contents, segments=(whole,), removed=NO_NUMBERS, groups=())
        if self.folder is not None:
            self.commit()
            self.folder.remove_unnamed_files()

    def close(self, *, save: bool = False) -> None:
        """Let other processes write to its folder; with `save`, commit a writer's changes before."""
        if self.folder is not None:
            try:
                if save and self.folder.is_locked():
                    self.save(None)
            finally:
                self.folder.abandon()
