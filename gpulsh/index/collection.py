"""The documents of an index by number, in segments in memory and in files: add, find, forget and commit them.

`gpulsh.Index` is for users with texts and keys in memory. Jobs over files use a `Collection`: any number of documents,
in batches of a source, followed by their keys.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Values
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.protocol import Backend
from gpulsh.errors import ParameterError
from gpulsh.index.admission import SignedBatch, admit, hold_all, similar
from gpulsh.index.evidence.places import Origin, PlaceStream
from gpulsh.index.evidence.texts import Read, TextsAgain
from gpulsh.index.folder import Contents, Folder, compacted, discard, settled
from gpulsh.index.groups import grouped
from gpulsh.index.keys import GIVEN, KeyNames, KeyStream, refuse_kind, refuse_repeats, repeated, sorted_keys
from gpulsh.index.segment import KEY_TYPES, Documents, Keys, Segment, keyed
from gpulsh.index.snapshot import ABSENT, Snapshot
from gpulsh.io.rows import TextSource
from gpulsh.lsh.signing import sign_by_method
from gpulsh.method import Method
from gpulsh.params import EvidenceName, check_integer
from gpulsh.secret import EvidenceKeys, evidence_keys
from gpulsh.stats.stages import Funnel
from gpulsh.store.columns import release_memory
from gpulsh.text.documents import folded_batches
from gpulsh.theory import checked_number


class Collection:
    """Documents by number, in input order; their keys are Arrow arrays of one kind.

    A change makes new contents, which replace the old ones when they are complete: an error leaves all as it was. A
    reader takes one `snapshot`, which no change touches, and needs no lock. Callers make one change at a time. Segments
    with more than `spill` bytes in memory are written to the folder, if there is one.
    """

    def __init__(
        self,
        method: Method,
        secret: bytes,
        ops: Backend,
        spill: int,
        evidence: EvidenceName = "index",
        read: Read | None = None,
    ) -> None:
        self.method, self.ops, self.spill, self.evidence = method, ops, spill, evidence
        self._secret = secret
        self._again = TextsAgain(method, evidence_keys(secret), read) if evidence == "source" else None
        self._folder: Folder | None = None
        self._contents, self._changed = Contents(), False

    def opened(self, path: Path, *, check: bool, read: Read | None = None) -> Self:
        """The collection of the newest commit in a folder, with its method and secret, on this one's backend."""
        folder, contents = Folder.opened(path, contents=check)
        method = Method.restored(folder.manifest.parameters)
        manifest = folder.manifest
        secret = bytes.fromhex(manifest.secret)
        found = type(self)(method, secret, self.ops, self.spill, manifest.evidence, read)
        found._folder, found._contents = folder, contents
        return found

    def begin_in(self, path: Path) -> None:
        """Use a folder, absent or empty before; nothing is committed yet."""
        self._folder = Folder.made(path, self.method, self._secret, self.evidence)
        self._changed = True

    @property
    def path(self) -> Path | None:
        """The folder; None while all is in memory."""
        return self._folder.path if self._folder else None

    @property
    def commits(self) -> int:
        """The number of commits to its folder."""
        return self._folder.manifest.generation if self._folder else 0

    def must_be_read(self) -> bool:
        """Whether texts without a place could never be read again."""
        return self._again is not None and self._again.read is None

    def refuse_within_read(self) -> None:
        """ParameterError if `read`, which takes texts from the caller, calls this."""
        if self._again is not None:
            self._again.refuse_within_read()

    def counts(self) -> tuple[int, int]:
        """The numbers of documents that are held, and that were dropped."""
        return self.snapshot().counts()

    def find(self, keys: pa.Array, kind: str | None) -> Numbers:
        """int64 [n]: the numbers of the documents, held or dropped, with keys of a kind; ABSENT if there is none."""
        return np.full(len(keys), ABSENT) if kind is None else self.snapshot().find(sorted_keys(keys))

    def new_keys(self, keys: pa.Array, kind: str | None) -> Keys:
        """Keys ready for lookup; ParameterError if one comes twice or is in the index, before other work is done."""
        self.begin_change()
        own = sorted_keys(keys)
        if kind is not None:
            refuse_kind(kind, self._contents.keys)
            self._refuse_known(own, self.snapshot(), 0)
        return own

    def take_in(
        self,
        source: TextSource,
        keys: Callable[[], Iterable[pa.Array]],
        *,
        decide: bool,
        tally: Funnel | None = None,
        names: KeyNames = GIVEN,
        known: Keys | None = None,
        origin: Origin | None = None,
    ) -> range:
        """Add the documents of `source` and return their numbers; `tally` counts the decisions.

        `keys` is called after the last document was read. It gives all keys in order, in pieces of any length. `known`
        are all keys, if each was found to be new. With evidence at the source, the index holds the fingerprints of new
        documents until the end; `origin` then locates their texts, and without it only the caller knows them. With a
        folder, memory stays bounded: segments are written once they have `spill` bytes, and keys with their segment.
        """
        self.begin_change()
        ops, path = self.ops, self.path
        before = self._contents
        new: list[Segment] = []
        groups, number = before.groups, before.next_number
        tally = tally or Funnel()
        try:
            for batch in self.signed(source):
                if decide:
                    snapshot = self._snapshot(replace(before, segments=(*before.segments, *new), groups=groups))
                    segment = admit(batch, number, snapshot, self.method, ops, tally)
                    snapshot.release(len(batch))
                else:
                    segment = hold_all(batch, number, self.method, ops)
                if self._again is not None:
                    segment = replace(segment, at_source=True)
                number += len(segment)
                new = settled([*new, segment], path, self.spill)
                if new[-1].files and path:
                    groups = grouped([*before.segments, *new], groups, path)
                    release_memory()
            stream = KeyStream(keys(), before.keys)
            places = None
            if self._again is not None:
                places = PlaceStream(origin, before.sources)
            for place, segment in enumerate(new):
                taken = stream.take(len(segment))
                own = known if known is not None and len(new) == 1 else sorted_keys(taken)
                if known is None:
                    snapshot = self._snapshot(replace(before, segments=(*before.segments, *new[:place]), groups=groups))
                    first = int(segment.documents.number[0]) - before.next_number
                    self._refuse_known(own, snapshot, first, names)
                    snapshot.release(len(own.key))
                new[place] = keyed(segment, own, path, places.take(len(segment)) if places is not None else None)
                del own
                if segment.files and path:
                    groups = grouped([*before.segments, *new], groups, path)
                    release_memory()
        except BaseException:
            discard(new, path)
            raise
        segments = settled([*before.segments, *new], path, self.spill)
        if path:
            groups = grouped(segments, groups, path)
        sources = before.sources if places is None else places.sources
        self._set(Contents(tuple(segments), before.removed, number, stream.kind, groups, sources))
        return range(before.next_number, number)

    def decisions(self, numbers: range) -> Iterator[Documents]:
        """Yield the decisions on the documents `numbers`, in order, some at a time; removed ones may be left out."""
        for segment in self._contents.segments:
            documents = segment.documents
            first, last = (bisect_left(documents.number, number) for number in (numbers.start, numbers.stop))
            if first < last:
                yield documents.where(slice(first, last))

    def find_similar(
        self, source: TextSource, snapshot: Snapshot, threshold: float | None = None, top: int | None = None
    ) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
        """Documents of `snapshot` similar to documents of a source: positions, numbers, similarity, [m] each.

        The most similar come first, at most `top` for each position, ties to the earlier. The
        `threshold` is the index's own if None. ParameterError for one below it or above 1, and for a `top` below 1.
        """
        if top is not None:
            top = check_integer("top", top, 1, 1 << 62)
        least = self.method.threshold
        threshold = least if threshold is None else checked_number("threshold", threshold)
        if not least <= threshold <= 1:
            raise ParameterError(f"threshold is {threshold!r}, and the index has {least}; give {least} to 1")
        start = 0
        found: list[tuple[Values, ...]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for batch in self.signed(source):
            if start:
                snapshot.release(len(batch))
            rows, numbers, similarity = similar(batch, snapshot, self.method, self.ops, top)
            enough = similarity >= threshold
            found.append((rows[enough] + start, numbers[enough], similarity[enough]))
            start += len(batch)
        positions, numbers, similarity = (np.concatenate(column) for column in zip(*found, strict=True))
        return positions, numbers, similarity

    def key_kind(self) -> str | None:
        """The kind of its keys, "string" or "integer"; None before the first."""
        return self._contents.keys

    def facts(self) -> Mapping[str, Any]:
        """The output of `gpulsh index info`, as JSON values; `bytes` is the size of the newest commit's files.

        `bytes_per_document` divides it by the documents in the index, held and dropped.
        """
        held, dropped = self.counts()
        files = self._folder.manifest.files() if self._folder else {}
        size = sum(fact.size for fact in files.values())
        return {
            "documents": held,
            "dropped": dropped,
            "removed": len(self._contents.removed),
            "keys": self._contents.keys,
            "segments": len(self._contents.segments),
            "bytes": size,
            "bytes_per_document": round(size / max(held + dropped, 1), 1),
            "evidence": self.evidence,
            "commits": self.commits,
            "parameters": self.method.matching(),
        }

    def forget(self, numbers: Numbers) -> None:
        """Forget documents, held or dropped. A held document takes the documents dropped for it along."""
        self._set(replace(self._contents, removed=np.union1d(self._contents.removed, numbers)))

    def taken_in_by(self, run: str) -> range | None:
        """The numbers of the documents that a commit added for a run of this name; None if there is none."""
        taken = self._folder.manifest.runs.get(run) if self._folder else None
        return None if taken is None else range(*taken)

    def save_run(self, run: str, numbers: range) -> None:
        """Commit, and record in the same commit that the run added these numbers."""
        self.begin_change()
        assert self._folder is not None
        self._contents = self._folder.commit(self._contents, {run: (numbers.start, numbers.stop)})
        self._changed = False

    def save(self, path: Path | None) -> None:
        """Commit all changes, to its own folder or to another one, which is its own from then on."""
        if path is not None and (self._folder is None or os.path.realpath(path) != os.path.realpath(self._folder.path)):
            folder = Folder.made(path, self.method, self._secret, self.evidence)
            loose = tuple(replace(segment, files=None) for segment in self._contents.segments)
            try:
                self._contents = folder.commit(replace(self._contents, segments=loose))
            except BaseException:
                folder.abandon()
                raise
            self.close()
            self._folder = folder
        elif self._folder is None:
            raise ParameterError("path is None, and the index is in memory only; give the path of a folder")
        elif self._changed:
            self.begin_change()
            self._contents = self._folder.commit(self._contents)
        self._changed = False

    def unsaved(self) -> int:
        """The number of documents if the index has changed and has no folder, else 0."""
        return sum(self.counts()) if self._changed and self._folder is None else 0

    def compact(self) -> None:
        """Merge all segments without removed documents; in a folder, commit that and remove the old files."""
        self.begin_change()
        whole = compacted(self._contents, self.path)
        if self._folder is not None:
            self._contents = self._folder.commit(whole)
            self._changed = False
            self._folder.sweep()
        else:
            self._contents = whole

    def close(self, *, save: bool = False) -> None:
        """Let other processes write to its folder; with `save`, commit a writer's changes before."""
        if self._folder is not None:
            try:
                if save and self._folder.is_locked():
                    self.save(None)
            finally:
                self._folder.abandon()

    @property
    def evidence_keys(self) -> EvidenceKeys:
        """The keys of the fingerprints that it holds."""
        return evidence_keys(self._secret)

    def signed(self, source: TextSource) -> Iterator[SignedBatch]:
        """The documents of a source with their hashes, batch after batch."""
        method, ops = self.method, self.ops
        keys = evidence_keys(self._secret)

        def sign(lane: Backend, batch: TextBatch) -> SignedBatch:
            return SignedBatch.of(batch, keys, sign_by_method(batch, method, keys, lane), lane)

        with ops.here():
            batches: Iterable[TextBatch] = folded_batches(source, method.folding, ops.sizes().batch)
            if isinstance(source, Sized) and len(source) == 1:
                batches = [*batches]  # one needs no threads
            yield from map_batches(ops, batches, sign)

    def snapshot(self) -> Snapshot:
        """The present state."""
        return self._snapshot(self._contents)

    def _snapshot(self, contents: Contents) -> Snapshot:
        kind = KEY_TYPES[contents.keys or "string"]
        return Snapshot(contents.segments, contents.removed, contents.groups, self._again, kind)

    def begin_change(self) -> None:
        """Become the writer, of the newest commit; OutputError if there is another, or if it would lose changes."""
        if self._folder is not None:
            newer = self._folder.lock(changed=self._changed)
            if newer is not None:
                self._contents = newer

    def _refuse_known(self, keys: Keys, snapshot: Snapshot, start: int, names: KeyNames = GIVEN) -> None:
        """ParameterError if one of the keys, numbered from `start`, is in the index or comes twice."""
        refuse_repeats(keys, start, names)
        numbers = snapshot.find(keys)
        there = np.flatnonzero(numbers != ABSENT)
        if len(there) == 0:
            return
        place, number = int(there[0]), int(numbers[there[0]])
        key = keys.key[place].as_py()
        if number >= self._contents.next_number:
            raise repeated(start + place, key, number - self._contents.next_number, names)
        given = f"{names.of(start + place)}{names.its_key} is {key!r}"
        raise ParameterError(f"{given}, which is in the index; {names.remedy}")

    def _set(self, contents: Contents) -> None:
        self._contents, self._changed = contents, True
