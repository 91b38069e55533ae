"""`gpulsh.Index`: near-duplicates of documents that came earlier, found without their texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.account.funnel import Funnel
from gpulsh.arrays import Numbers, TextBatch, Values
from gpulsh.backends.large_alone import each_large_alone
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.display import Tidy
from gpulsh.errors import DamagedInputError, ParameterError
from gpulsh.facts import Facts
from gpulsh.index.answers import Added, Matches, Pairs
from gpulsh.index.arrivals import Arrivals, admit, hold_all, similar
from gpulsh.index.holdings import NOBODY, Holdings
from gpulsh.index.keys import (
    GIVEN,
    KeyNames,
    KeyStream,
    as_numpy,
    checked_keys,
    refuse_kind,
    refuse_repeats,
    repeated,
    sorted_keys,
)
from gpulsh.index.segments.groups import Groups
from gpulsh.index.segments.merging import in_memory
from gpulsh.index.segments.segment import KEY_TYPES, Documents, Keys
from gpulsh.index.storage import Contents, Folder, Shelved, compacted, discard, keyed, settled, spill_bytes
from gpulsh.index.walk import held_buckets, similar_pairs
from gpulsh.io.format import LEAST_MEMORY
from gpulsh.io.memory.texts import open_texts
from gpulsh.io.source import TextSource
from gpulsh.lsh.signing import sign_by_method
from gpulsh.method import Asked, MeasureName, Method
from gpulsh.params import BitSketch, Folding, Shingling, Sketch, check_integer, checked_folder
from gpulsh.secret import chosen_secret, evidence_keys
from gpulsh.sketch.bits.simhash import SimHash
from gpulsh.store.allocators import give_back
from gpulsh.text.documents import folded_batches
from gpulsh.theory import checked_number


class Index(Tidy):
    """Documents by key, of which similar ones are found later, exactly verified, without their texts.

    Its parameters are those of `deduplicate`, but for what says how a whole run is decided: no `verify`, for it is
    exact, no `resolve`, `also` or `priority`, and `folding=Folding(form=...)` for `normalize`. With
    `sketch=SimHash(...)` documents meet in tables of a Hamming search within `distance`, which then are the bands. With
    `measure="containment"`, whatever the sketch, a document is added unless a held one contains at least `threshold` of
    its shingles, each of which is held with 16 bytes more. An index cannot put the longest first as `deduplicate` does:
    what comes first is first, in one call, too, and a page is kept that comes after a quotation of it. Keys are
    strings, or integers of 64 bits, each once. It lives in memory until `save(path)`; `Index.open(path)` finds it there
    again. Any number of processes may have it open; the first change of one makes that the writer until it is closed,
    and its changes are committed by `save`, all or none. With a folder, what is taken in holds a part of `memory`
    bytes, at least 512 MiB; None takes what serves speed. What proves is hashed under a secret of 256 bits, the index's
    own, which lies in its folder; `secret` gives it, for tests.
    Not safe to use from several threads at once. Raises ParameterError, and BackendError where CUDA was asked for and
    does not work.

    >>> index = Index(threshold=0.5, backend="cpu")
    >>> index.insert(["a", "b"], ["one two three four five six", "something else"])
    >>> index.query(["One two, three four five six seven!"]).keys.tolist()
    ['a']
    """

    _inner = (
        *("admit_source", "decisions", "facts", "find_similar", "forget", "key_column", "key_kind", "keys_of"),
        *("save_run", "taken_in_by"),
    )

    def __init__(
        self,
        *,
        threshold: float = 0.8,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        sketch: Sketch | BitSketch | None = None,
        num_perm: int = 128,
        bands: int | None = None,
        rows: int | None = None,
        seed: int = 1,
        distance: int | None = None,
        measure: MeasureName = "jaccard",
        backend: BackendName = "auto",
        threads: int | None = None,
        devices: Sequence[int] | None = None,
        memory: int | None = None,
        secret: bytes | None = None,
    ) -> None:
        asked = Asked(threshold, shingling, folding, sketch, num_perm, bands, rows, seed, distance, measure)
        self._method = asked.method()
        if memory is not None:
            check_integer("memory", memory, LEAST_MEMORY, 1 << 62)
        # Hashes of batches, and what is held already, take the rest of the memory.
        part = None if memory is None else memory // 4
        self._ops = select_backend(backend, threads=threads, devices=devices, memory=part)
        self._spill = spill_bytes(memory)
        self._secret = chosen_secret(secret)
        self._folder: Folder | None = None
        self._contents, self._changed = Contents(), False
        self._groups = Groups()

    @classmethod
    def create(cls, path: str | os.PathLike[str], **parameters: Any) -> Self:
        """A new index, with the parameters of `Index`, that will lie in the folder `path`, which is made or empty.

        What grows large in memory goes to the folder at once; the first `save` makes an index of it, and an Index left
        as a context without that removes what it made. Raises OutputError where the folder cannot be used.
        """
        self = cls(**parameters)
        self._folder = Folder.made(Path(checked_folder("path", path)), self._method, self._secret)
        self._groups = Groups(self._folder.path)
        self._changed = True
        return self

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        threshold: float | None = None,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        sketch: Sketch | BitSketch | None = None,
        num_perm: int | None = None,
        bands: int | None = None,
        rows: int | None = None,
        seed: int | None = None,
        distance: int | None = None,
        measure: MeasureName | None = None,
        check: bool = True,
        backend: BackendName = "auto",
        threads: int | None = None,
        devices: Sequence[int] | None = None,
        memory: int | None = None,
    ) -> Self:
        """The index in the folder `path`, as of its newest commit.

        Parameters that are given must be the index's own. With `check`, every file is read once and compared with its
        checksum; without, only their sizes are.

        Raises InputError where there is no index, another version made it, or a file of it is missing or damaged;
        ParameterError that names each parameter that differs.
        """
        self = cls(backend=backend, threads=threads, devices=devices, memory=memory)
        own = Path(checked_folder("path", path))
        folder, contents = Folder.opened(own, contents=check)
        method = _restored(own, folder.snapshot.parameters, contents)
        asked = Asked(threshold, shingling, folding, sketch, num_perm, bands, rows, seed, distance, measure)
        if differences := asked.differences(method):
            raise ParameterError(
                f"{path}: the index was made with {', with '.join(differences)}; give the index's own parameters, or"
                " none, or build another index"
            )
        self._method, self._folder, self._contents = method, folder, contents
        self._groups = Groups(own, contents.groups)
        self._secret = bytes.fromhex(folder.snapshot.secret)
        return self

    @property
    def path(self) -> Path | None:
        """The folder that the index lies in; None while it is in memory alone."""
        return self._folder.path if self._folder else None

    @property
    def parameters(self) -> Method:
        """What decides which documents meet and which are duplicates."""
        return self._method

    def __repr__(self) -> str:
        return f"<gpulsh.Index in {self.path or 'memory'}, of threshold {self._method.threshold}>"

    def __len__(self) -> int:
        """How many documents are held: inserted, or added and kept, and not removed."""
        return self._holdings().counts()[0]

    def dropped(self) -> int:
        """How many documents are known that `add` dropped."""
        return self._holdings().counts()[1]

    def __contains__(self, key: object) -> bool:
        """Whether a document, held or dropped, has the key."""
        if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)):
            return False
        array, kind = checked_keys([key], "key")
        return kind == self._contents.keys and int(self._holdings().find(sorted_keys(array))[0]) != NOBODY

    def insert(self, keys: object, texts: object) -> None:
        """Hold the documents, whatever they resemble; `texts` is any kind that `deduplicate` takes.

        Raises ParameterError where a key comes twice or is there, InputTypeError where a row is no text; then the index
        is as it was.
        """
        self._take_in(keys, texts, decide=False)

    def add(self, keys: object, texts: object) -> Added:
        """Hold the documents that duplicate no earlier one, and know the others.

        The decision is that of `deduplicate` over everything that was ever added, in order: a document is dropped when
        it is an exact copy of an earlier one, or a held one is at least `threshold` similar or, by containment,
        contains so much of it. Raises as `insert` does.
        """
        numbers, array = self._take_in(keys, texts, decide=True)
        found = Documents.joined(self.decisions(numbers))
        keep = found.witness == found.number
        duplicate_of = as_numpy(array).copy()
        duplicate_of[~keep] = self.keys_of(found.witness[~keep])
        return Added(keep, duplicate_of, found.similarity.astype(np.float32))

    def query(self, texts: object, *, threshold: float | None = None) -> Matches:
        """For each text the held documents that share a band with it and are at least `threshold` similar.

        By containment, all that contain at least `threshold` of it. `texts` is any kind that `deduplicate` takes. A
        `threshold` given here is the index's own, which None stands for, or above it. Raises InputTypeError where a row
        is no text, ParameterError for another threshold.
        """
        source = open_texts(texts, self._ops)
        positions, numbers, similarity = self.find_similar(source, threshold)
        return Matches(positions, self.keys_of(numbers), similarity)

    def buckets(self) -> Iterator[tuple[int, Values]]:
        """Each bucket of two held documents or more: the number of its band, and the documents' keys, first in first.

        Bands come in order, one of them is in memory at a time; by containment there is one, whose buckets are of the
        documents that share a shingle. The index must not change meanwhile.
        """
        for band, buckets in enumerate(held_buckets(self._holdings(), self._method.banding.bands, self._ops)):
            keys = self.keys_of(buckets.ids)
            for start, stop in pairwise(buckets.offset.tolist()):
                yield band, keys[start:stop]

    def pairs(self) -> Pairs:
        """Every pair of held documents that share a bucket and are at least `threshold` similar, once.

        By containment, every pair of which the one that came first contains at least `threshold` of the other.
        All pairs of a bucket are looked at: of very many copies that were inserted, not added, there are many.
        """
        numbers, similarity = similar_pairs(self._holdings(), self._method, self._ops)
        return Pairs(self.keys_of(numbers[:, 0]), self.keys_of(numbers[:, 1]), similarity)

    def remove(self, keys: object) -> None:
        """Forget documents, held or dropped; with a held one those that it was the witness of. Their keys are free.

        Raises ParameterError where a key is not there; then the index is as it was.
        """
        array, kind = checked_keys(keys)
        if kind is None:
            return
        self._begin_change()
        known = self._contents.keys == kind
        numbers = self._holdings().find(sorted_keys(array)) if known else np.full(len(array), NOBODY)
        missing = np.flatnonzero(numbers == NOBODY)
        if len(missing):
            raise ParameterError(f"keys[{missing[0]}] is {array[int(missing[0])].as_py()!r}, which is not in the index")
        self.forget(numbers)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Commit all changes: to the folder `path`, made or empty, in which the index lies from then on, or to its own.

        Raises OutputError where it cannot be written; what was committed before is still there.
        """
        path = None if path is None else checked_folder("path", path)
        if path is not None and (self._folder is None or os.path.realpath(path) != os.path.realpath(self._folder.path)):
            folder = Folder.made(Path(path), self._method, self._secret)
            groups = Groups(folder.path)
            loose = tuple(Shelved(shelved.segment) for shelved in self._contents.shelves)
            try:
                self._contents = folder.commit(replace(self._contents, shelves=loose), groups)
            except BaseException:
                folder.abandon()
                raise
            self.close()
            self._folder, self._groups = folder, groups
        elif self._folder is None:
            raise ParameterError("path is None, and the index lies in memory alone; give the path of a folder")
        elif self._changed:
            self._contents = self._folder.commit(self._contents, self._groups)
        self._changed = False

    def compact(self) -> None:
        """Merge all segments into one without removed documents; on disk, commit that and remove unneeded files."""
        self._begin_change()
        whole = compacted(self._contents, self.path)
        self._groups = Groups(self.path)
        if self._folder is not None:
            self._contents = self._folder.commit(whole, self._groups)
            self._changed = False
            self._folder.sweep()
        else:
            held = tuple(Shelved(in_memory(shelved.segment)) for shelved in whole.shelves)
            self._contents = replace(whole, shelves=held)

    def close(self) -> None:
        """Let others write; changes since the last `save` are not committed."""
        if self._folder is not None:
            self._folder.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # --- what files are composed with

    def admit_source(
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
        self._begin_change()
        ops, path = self._ops, self.path
        before = self._contents
        new: list[Shelved] = []
        number = before.next_number
        tally = tally or Funnel()
        try:
            for arrivals in self._signed(source):
                if decide:
                    holdings = self._holdings([*before.shelves, *new])
                    segment = admit(arrivals, number, holdings, self._method, ops, tally)
                    holdings.let_go(len(arrivals))
                else:
                    segment = hold_all(arrivals, number, self._method, ops)
                number += len(segment)
                new = settled([*new, Shelved(segment)], path, self._spill)
                if new[-1].stored:
                    give_back()
            stream = KeyStream(keys(), before.keys)
            for place, shelved in enumerate(new):
                taken = stream.take(len(shelved.segment))
                own = known if known is not None and len(new) == 1 else sorted_keys(taken)
                if known is None:
                    holdings = self._holdings([*before.shelves, *new[:place]])
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
        shelves = settled([*before.shelves, *new], path, self._spill) if new else list(before.shelves)
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
        self, source: TextSource, threshold: float | None = None
    ) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
        """`query` of a source: positions, numbers of held documents, similarity, [m] each."""
        least = self._method.threshold
        threshold = least if threshold is None else checked_number("threshold", threshold)
        if not least <= threshold <= 1:
            raise ParameterError(f"threshold is {threshold!r}, and the index finds from {least} on; give {least} to 1")
        holdings, start = self._holdings(), 0
        found: list[tuple[Values, ...]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for arrivals in self._signed(source):
            if start:
                holdings.let_go(len(arrivals))
            rows, numbers, similarity = similar(arrivals, holdings, self._method, self._ops)
            found.append((rows + start, numbers, similarity))
            start += len(arrivals)
        positions, numbers, similarity = (np.concatenate(column) for column in zip(*found, strict=True))
        enough = similarity >= threshold
        return positions[enough], numbers[enough], similarity[enough]

    def keys_of(self, numbers: Numbers) -> Values:
        """The keys of documents that are there."""
        return as_numpy(self.key_column(numbers))

    def key_column(self, numbers: Numbers) -> pa.Array:
        """Return the keys of the documents `numbers` as an Arrow array."""
        holdings = self._holdings()
        keys = holdings.keys(numbers, KEY_TYPES[self._contents.keys or "string"])
        holdings.let_go(len(numbers))
        return keys

    def key_kind(self) -> str | None:
        """What its keys are, "string" or "integer"; None while there is none."""
        return self._contents.keys

    def facts(self) -> Facts:
        """What `gpulsh index info` tells, as JSON values; `bytes` are those of the files of its newest commit."""
        held, dropped = self._holdings().counts()
        files = self._folder.snapshot.files() if self._folder else {}
        return {
            "documents": held,
            "dropped": dropped,
            "removed": len(self._contents.removed),
            "keys": self._contents.keys,
            "segments": len(self._contents.shelves),
            "bytes": sum(fact.size for fact in files.values()),
            "commits": self._folder.snapshot.generation if self._folder else 0,
            "parameters": self._method.matching(),
        }

    def forget(self, numbers: Numbers) -> None:
        """`remove`, by number."""
        self._set(replace(self._contents, removed=np.union1d(self._contents.removed, numbers)))

    def taken_in_by(self, run: str) -> range | None:
        """The numbers of the documents that a commit took in for a run of this name; None where none did."""
        taken = self._folder.snapshot.runs.get(run) if self._folder else None
        return None if taken is None else range(*taken)

    def save_run(self, run: str, numbers: range) -> None:
        """`save`, and `taken_in_by` tells from then on that these numbers are of the run, in one commit."""
        assert self._folder is not None
        self._contents = self._folder.commit(self._contents, self._groups, {run: (numbers.start, numbers.stop)})
        self._changed = False

    def _take_in(self, keys: object, texts: object, *, decide: bool) -> tuple[range, pa.Array]:
        """The documents' numbers, and their keys."""
        source = open_texts(texts, self._ops)
        array, kind = checked_keys(keys)
        if len(array) != len(source):
            raise ParameterError(f"keys are {len(array)} and texts {len(source)}; give one key for each text")
        self._begin_change()
        own = sorted_keys(array)
        if kind is not None:  # before any work is done
            refuse_kind(kind, self._contents.keys)
            self._refuse_known(own, self._holdings(), 0)
        return self.admit_source(source, lambda: [array], decide=decide, known=own), array

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

    def _signed(self, source: TextSource) -> Iterator[Arrivals]:
        method, ops = self._method, self._ops
        keys = evidence_keys(self._secret)

        def sign(lane: Backend, batch: TextBatch) -> Arrivals:
            self._groups.asked += len(batch)
            return Arrivals.of(batch, keys, sign_by_method(batch, method, keys, lane), lane)

        with ops.here():
            batches: Iterable[TextBatch] = folded_batches(source, method.folding, ops.sizes().batch)
            if isinstance(source, Sized) and len(source) == 1:
                batches = [*batches]  # one, for which nobody starts threads
            yield from each_large_alone(ops, batches, sign)

    def _holdings(self, shelves: Sequence[Shelved] | None = None) -> Holdings:
        """What it holds, or would with these segments."""
        contents = self._contents
        found = [shelved.segment for shelved in (contents.shelves if shelves is None else shelves)]
        return Holdings(found, contents.removed, self._groups)

    def _begin_change(self) -> None:
        if self._folder is not None:
            newer = self._folder.lock(changed=self._changed)
            if newer is not None:
                self._contents, self._groups = newer, Groups(self.path, newer.groups)

    def _set(self, contents: Contents) -> None:
        self._contents, self._changed = contents, True


def _restored(path: Path, told: Facts, contents: Contents) -> Method:
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
