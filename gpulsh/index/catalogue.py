"""What `gpulsh.Index` keeps: documents by number, in segments in memory and in files, taken in, found and committed.

`Index` is the door for users, whose documents have keys and texts. Who composes a job over files comes here, where they
come in any number: in batches of a source, with their keys after them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Values
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.protocol import Backend
from gpulsh.errors import DamagedInputError, ParameterError
from gpulsh.index.arrivals import Arrivals, admit, hold_all, similar
from gpulsh.index.folder import Folder
from gpulsh.index.holdings import NOBODY, Holdings
from gpulsh.index.keys import GIVEN, KeyNames, KeyStream, refuse_kind, refuse_repeats, repeated, sorted_keys
from gpulsh.index.segments.groups import Groups
from gpulsh.index.segments.merging import in_memory
from gpulsh.index.segments.segment import KEY_TYPES, Documents, Keys
from gpulsh.index.shelves import Contents, Shelved, compacted, discard, keyed, settled
from gpulsh.io.rows import TextSource
from gpulsh.lsh.signing import sign_by_method
from gpulsh.method import Method
from gpulsh.params import check_integer
from gpulsh.ragged import within_runs
from gpulsh.secret import evidence_keys
from gpulsh.sketch.simhash import SimHash
from gpulsh.stats.stages import Funnel
from gpulsh.store.scratch import give_back
from gpulsh.text.documents import folded_batches
from gpulsh.theory import checked_number


class Catalogue:
    """Documents by number, in the order in which they came; their keys are arrays of Arrow, of one kind.

    A change makes new contents, which take the place of the old ones when they are whole: what raises leaves all as it
    was. Whoever reads takes `holdings` once, which no change touches, so it needs no lock; changes come one at a time.
    Once segments hold `spill` bytes in memory they go to the folder, where there is one.
    """

    def __init__(self, method: Method, secret: bytes, ops: Backend, spill: int) -> None:
        self.method, self.ops, self.spill = method, ops, spill
        self.groups = Groups()
        self._secret = secret
        self._folder: Folder | None = None
        self._contents, self._changed = Contents(), False

    def opened(self, path: Path, *, check: bool) -> Self:
        """That of the newest commit in a folder, whose method and secret it has, worked at as this one."""
        folder, contents = Folder.opened(path, contents=check)
        method = _restored(path, folder.snapshot.parameters, contents)
        found = type(self)(method, bytes.fromhex(folder.snapshot.secret), self.ops, self.spill)
        found._folder, found._contents = folder, contents
        found.groups = Groups(path, contents.groups)
        return found

    def begin_in(self, path: Path) -> None:
        """Lie in a folder, absent or empty before, though nothing is committed yet."""
        self._folder = Folder.made(path, self.method, self._secret)
        self.groups = Groups(path)
        self._changed = True

    @property
    def path(self) -> Path | None:
        """The folder; None while all is in memory alone."""
        return self._folder.path if self._folder else None

    @property
    def commits(self) -> int:
        """How many its folder has seen."""
        return self._folder.snapshot.generation if self._folder else 0

    def counts(self) -> tuple[int, int]:
        """How many documents are held, and how many are known that were dropped."""
        return self.holdings().counts()

    def find(self, keys: pa.Array, kind: str | None) -> Numbers:
        """int64 [n]: the numbers of the documents, held or dropped, with keys of a kind; NOBODY where none has one."""
        return np.full(len(keys), NOBODY) if kind is None else self.holdings().find(sorted_keys(keys))

    def new_keys(self, keys: pa.Array, kind: str | None) -> Keys:
        """Keys ready to be looked up; ParameterError where one comes twice or is there, before any work is done."""
        self.begin_change()
        own = sorted_keys(keys)
        if kind is not None:
            refuse_kind(kind, self._contents.keys)
            self._refuse_known(own, self.holdings(), 0)
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
    ) -> range:
        """Take in the documents of `source`: their numbers. `tally` counts what becomes of them.

        `keys` is called after the last one was read and gives their keys, in order, in pieces of any lengths; `known`
        are all of them, where each was found new. With a folder, little is held of a document: its columns are written
        when some are together, at most 128 MiB, its key with those of the same segment.
        """
        self.begin_change()
        ops, path = self.ops, self.path
        before = self._contents
        new: list[Shelved] = []
        number = before.next_number
        tally = tally or Funnel()
        try:
            for arrivals in self.signed(source):
                if decide:
                    holdings = self.holdings([*before.shelves, *new])
                    segment = admit(arrivals, number, holdings, self.method, ops, tally)
                    holdings.let_go(len(arrivals))
                else:
                    segment = hold_all(arrivals, number, self.method, ops)
                number += len(segment)
                new = settled([*new, Shelved(segment)], path, self.spill)
                if new[-1].stored:
                    give_back()
            stream = KeyStream(keys(), before.keys)
            for place, shelved in enumerate(new):
                taken = stream.take(len(shelved.segment))
                own = known if known is not None and len(new) == 1 else sorted_keys(taken)
                if known is None:
                    holdings = self.holdings([*before.shelves, *new[:place]])
                    first = int(shelved.segment.documents.number[0]) - before.next_number
                    self._refuse_known(own, holdings, first, names)
                    holdings.let_go(len(own.key))
                new[place] = keyed(shelved, own, path)
                del own
                if shelved.stored:
                    give_back()
        except BaseException:
            discard(new, path)
            raise
        shelves = settled([*before.shelves, *new], path, self.spill) if new else list(before.shelves)
        self._set(Contents(tuple(shelves), before.removed, number, stream.kind))
        return range(before.next_number, number)

    def decisions(self, numbers: range) -> Iterator[Documents]:
        """Yield what was decided of the documents `numbers`, in order, some at a time; removed ones may be left out."""
        for shelved in self._contents.shelves:
            documents = shelved.segment.documents
            first, last = np.searchsorted(documents.number, [numbers.start, numbers.stop])
            if first < last:
                yield documents.where(slice(first, last))

    def find_similar(
        self, source: TextSource, holdings: Holdings, threshold: float | None = None, top: int | None = None
    ) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
        """Documents of `holdings` similar to those of a source: positions, numbers, similarity, [m] each.

        The most similar come first, at most `top` for each position, ties to the earlier. ParameterError for a
        `threshold` below the index's own, which None stands for, or above 1, and for a `top` below 1.
        """
        if top is not None:
            top = check_integer("top", top, 1, 1 << 62)
        least = self.method.threshold
        threshold = least if threshold is None else checked_number("threshold", threshold)
        if not least <= threshold <= 1:
            raise ParameterError(f"threshold is {threshold!r}, and the index finds from {least} on; give {least} to 1")
        start = 0
        found: list[tuple[Values, ...]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for arrivals in self.signed(source):
            if start:
                holdings.let_go(len(arrivals))
            rows, numbers, similarity = similar(arrivals, holdings, self.method, self.ops)
            enough = similarity >= threshold
            if top is not None:
                enough &= within_runs(np.bincount(rows)) < top
            found.append((rows[enough] + start, numbers[enough], similarity[enough]))
            start += len(arrivals)
        positions, numbers, similarity = (np.concatenate(column) for column in zip(*found, strict=True))
        return positions, numbers, similarity

    def key_kind(self) -> str | None:
        """What its keys are, "string" or "integer"; None while there is none."""
        return self._contents.keys

    def facts(self) -> Mapping[str, Any]:
        """What `gpulsh index info` tells, as JSON values; `bytes` are those of the files of its newest commit."""
        held, dropped = self.counts()
        files = self._folder.snapshot.files() if self._folder else {}
        return {
            "documents": held,
            "dropped": dropped,
            "removed": len(self._contents.removed),
            "keys": self._contents.keys,
            "segments": len(self._contents.shelves),
            "bytes": sum(fact.size for fact in files.values()),
            "commits": self.commits,
            "parameters": self.method.matching(),
        }

    def forget(self, numbers: Numbers) -> None:
        """Forget documents, held or dropped, and with a held one those that it is the witness of."""
        self._set(replace(self._contents, removed=np.union1d(self._contents.removed, numbers)))

    def taken_in_by(self, run: str) -> range | None:
        """The numbers of the documents that a commit took in for a run of this name; None where none did."""
        taken = self._folder.snapshot.runs.get(run) if self._folder else None
        return None if taken is None else range(*taken)

    def save_run(self, run: str, numbers: range) -> None:
        """Commit, and `taken_in_by` tells from then on that these numbers are of the run, in one commit."""
        self.begin_change()
        assert self._folder is not None
        self._contents = self._folder.commit(self._contents, self.groups, {run: (numbers.start, numbers.stop)})
        self._changed = False

    def save(self, path: Path | None) -> None:
        """Commit all changes, to the folder it lies in or to another one, in which it lies from then on."""
        if path is not None and (self._folder is None or os.path.realpath(path) != os.path.realpath(self._folder.path)):
            folder = Folder.made(path, self.method, self._secret)
            groups = Groups(folder.path)
            loose = tuple(Shelved(shelved.segment) for shelved in self._contents.shelves)
            try:
                self._contents = folder.commit(replace(self._contents, shelves=loose), groups)
            except BaseException:
                folder.abandon()
                raise
            self.close()
            self._folder, self.groups = folder, groups
        elif self._folder is None:
            raise ParameterError("path is None, and the index lies in memory alone; give the path of a folder")
        elif self._changed:
            self.begin_change()
            self._contents = self._folder.commit(self._contents, self.groups)
        self._changed = False

    def unsaved(self) -> int:
        """How many documents lie in memory alone, changed since the index was made, where it has no folder."""
        return sum(self.counts()) if self._changed and self._folder is None else 0

    def compact(self) -> None:
        """One segment of all, without removed documents; on disk it is committed, and what it replaces is removed."""
        self.begin_change()
        whole = compacted(self._contents, self.path)
        self.groups = Groups(self.path)
        if self._folder is not None:
            self._contents = self._folder.commit(whole, self.groups)
            self._changed = False
            self._folder.sweep()
        else:
            held = tuple(Shelved(in_memory(shelved.segment)) for shelved in whole.shelves)
            self._contents = replace(whole, shelves=held)

    def close(self, *, save: bool = False) -> None:
        """Let others write, where it has a folder; with `save` the changes of a writer are committed before."""
        if self._folder is not None:
            try:
                if save and self._folder.is_locked():
                    self.save(None)
            finally:
                self._folder.abandon()

    def signed(self, source: TextSource) -> Iterator[Arrivals]:
        """The documents of a source, batch after batch, with the hashes that they meet others by."""
        method, ops = self.method, self.ops
        keys = evidence_keys(self._secret)

        def sign(lane: Backend, batch: TextBatch) -> Arrivals:
            self.groups.asked += len(batch)
            return Arrivals.of(batch, keys, sign_by_method(batch, method, keys, lane), lane)

        with ops.here():
            batches: Iterable[TextBatch] = folded_batches(source, method.folding, ops.sizes().batch)
            if isinstance(source, Sized) and len(source) == 1:
                batches = [*batches]  # one, for which nobody starts threads
            yield from map_batches(ops, batches, sign)

    def holdings(self, shelves: Sequence[Shelved] | None = None) -> Holdings:
        """What it holds, or would with these segments."""
        contents = self._contents
        found = [shelved.segment for shelved in (contents.shelves if shelves is None else shelves)]
        return Holdings(found, contents.removed, self.groups, KEY_TYPES[contents.keys or "string"])

    def begin_change(self) -> None:
        """Become the writer, of what is committed now; OutputError where another one is, or was with changes here."""
        if self._folder is not None:
            newer = self._folder.lock(changed=self._changed)
            if newer is not None:
                self._contents, self.groups = newer, Groups(self.path, newer.groups)

    def _refuse_known(self, keys: Keys, holdings: Holdings, start: int, names: KeyNames = GIVEN) -> None:
        """ParameterError where one of the keys from number `start` on is there already, or comes twice."""
        refuse_repeats(keys, start, names)
        numbers = holdings.find(keys)
        there = np.flatnonzero(numbers != NOBODY)
        if len(there) == 0:
            return
        place, number = int(there[0]), int(numbers[there[0]])
        key = keys.key[place].as_py()
        if number >= self._contents.next_number:
            raise repeated(start + place, key, number - self._contents.next_number, names)
        raise ParameterError(f"{names.of(start + place)} is {key!r}, which is in the index; {names.remedy}")

    def _set(self, contents: Contents) -> None:
        self._contents, self._changed = contents, True


def _restored(path: Path, told: Mapping[str, Any], contents: Contents) -> Method:
    """The parameters in an index's manifest; InputError where they are invalid, or do not fit its segments."""
    try:
        method = Method.restored(told)
        if not 0 < method.threshold <= 1 or not _fits(method):
            raise ParameterError("a threshold, or bands, that cannot be")
    except (DamagedInputError, KeyError, TypeError, ParameterError) as error:
        raise DamagedInputError(
            f"{path}: the index is damaged: its parameters are none ({error}); restore it from a copy"
        ) from error
    bands = {len(shelved.segment.bands) for shelved in contents.shelves} - {method.banding.bands}
    if bands:
        raise DamagedInputError(
            f"{path}: the index is damaged: a segment has {bands.pop()} bands, not {method.banding.bands};"
            " restore it from a copy"
        )
    return method


def _fits(method: Method) -> bool:
    """Whether the bands are those of its signatures."""
    near, banding = method.near, method.banding
    if near is None:
        return banding.bands * banding.rows <= method.family.num_perm
    sketch = SimHash(bits=near.bits, seed=near.seed, weights=near.weights)  # or an error
    return (banding.bands, banding.rows) == (sketch.near(near.distance).tables, 1)
