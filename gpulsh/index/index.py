"""`gpulsh.Index`: finds near-duplicates of earlier documents without their texts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, Self, get_args

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Values
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.budget import parse_memory
from gpulsh.checks import check_choice, checked_folder, is_url, known_keywords, plural, shown_type
from gpulsh.errors import InputTypeError, ParameterError
from gpulsh.index.admission import held_buckets, similar_pairs
from gpulsh.index.answers import Added, Counts, Matches, Pairs, Stretches
from gpulsh.index.collection import Collection
from gpulsh.index.evidence.texts import Read
from gpulsh.index.keys import as_numpy, checked_keys, sorted_keys
from gpulsh.index.merging import spill_bytes
from gpulsh.index.segment import Documents
from gpulsh.index.snapshot import ABSENT
from gpulsh.index.stretches import find_stretches
from gpulsh.io.memory.texts import MemoryTexts, open_texts
from gpulsh.io.rows import text_bytes
from gpulsh.method import MeasureName, Method, given_parameters
from gpulsh.params import BitSketch, EvidenceName, Folding, Shingling, Sketch
from gpulsh.secret import chosen_secret
from gpulsh.sketch.named import sketches_by_name


class Index:
    """Documents by key. The index finds similar documents later and verifies them exactly, without their texts.

    It takes the parameters of `deduplicate`, without `verify` (an index is exact), `resolve`, `also` and `priority`.
    Use `folding=Folding(form=...)` instead of `normalize`. With `sketch=SimHash(...)`, the bands are tables of a
    Hamming search within `distance`. With `measure="containment"`, a document is dropped if a held one contains at
    least `threshold` of its shingles; each shingle takes 16 bytes more. The first document is always kept: an index
    cannot put the longest first as `deduplicate` does, so it keeps a page even after a quotation from it. Keys are
    unique strings or 64-bit integers. With a folder, `memory`, such as "4GiB" or bytes, at least 512 MiB, limits what
    `insert` and `add` use; None favours speed. The index keys its evidence with a secret of 256 bits in its folder;
    tests give it as `secret`.

    A document is *in the index* from `insert` or `add` until `remove`, even if `add` dropped it. `in`, `len` and
    `remove` apply to all these documents, and no other document may have their keys. A document that was not dropped is
    *held*. `query`, `buckets` and `pairs` find only held documents, and `len(index) - index.dropped()` counts them.

    With `evidence="source"`, the index is compact: it stores hashes instead of shingles, and reads texts again when a
    new one may be similar. Decisions and answers are the same. `read(keys)` returns the texts for a list of keys, of
    any kind that `deduplicate` takes. It must not use this index. The index compares each text with its keyed hash, so
    a changed text is an error. An index of files (`gpulsh index build --evidence source`) knows their places and needs
    no `read`. Until a call of `add` or `insert` ends, the index stores the shingles of the new documents. Containment
    is not supported.

    An index is in memory until `save(path)`; `Index.open(path)` reads it again. Any number of processes may open it.
    The first process that changes it is the only writer until it closes it. `save` commits all changes or none. At the
    end of a `with` block, an index with a folder is saved, and an index without one warns about unsaved documents.
    After an exception, neither happens.

    Threads may share an Index. One thread at a time changes or saves it, and others wait. Queries do not wait: each
    sees the index as it was when the query began, with all changes of another call or none. A forked process can read
    its parent's index, and write after the parent has closed it. An Index cannot be pickled.

    Raises ParameterError for wrong parameters, BackendError if CUDA is requested and does not work.

    >>> index = Index(threshold=0.5, backend="cpu")
    >>> index.insert(["a", "b"], ["one two three four five six", "something else"])
    >>> index.query(["One two, three four five six seven!"]).keys.tolist()
    ['a']
    """

    @known_keywords
    def __init__(
        self,
        *,
        threshold: float = 0.8,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        sketch: Sketch | BitSketch | str | None = None,
        num_perm: int = 128,
        bands: int | None = None,
        rows: int | None = None,
        seed: int = 1,
        distance: int | None = None,
        measure: MeasureName = "jaccard",
        backend: BackendName = "auto",
        threads: int | None = None,
        devices: Sequence[int] | None = None,
        memory: int | str | None = None,
        evidence: EvidenceName = "index",
        read: Read | None = None,
        secret: bytes | None = None,
    ) -> None:
        sketch, _ = sketches_by_name(sketch, None, num_perm, seed, distance)
        chosen = threshold, shingling, folding, sketch, num_perm, bands, rows, seed
        method = Method.choose(*chosen, measure=measure, distance=distance)
        check_choice("evidence", evidence, get_args(EvidenceName))
        _check_read(read, evidence)
        if evidence == "source" and method.measure == "containment":
            raise ParameterError(
                "evidence 'source' cannot be combined with measure 'containment', which stores shingles; leave one out"
            )
        if memory is not None:
            memory = parse_memory(memory)
        # The hashes of batches, and segments in memory, take the rest.
        part = None if memory is None else memory // 4
        ops = select_backend(backend, threads=threads, devices=devices, memory=part)
        self.collection = Collection(method, chosen_secret(secret), ops, spill_bytes(memory), evidence, read)
        self._writing: dict[int, Lock] = {}  # by process: one that is held at a fork stays locked in the child

    @classmethod
    def create(cls, path: str | os.PathLike[str], **parameters: Any) -> Self:
        """Create an index, with the parameters of `Index`, in the folder `path`, which is absent or empty.

        The index writes large segments to the folder. The first `save` commits; an Index that is closed before that
        removes its files. Raises OutputError if the folder cannot be used.
        """
        self = cls(**parameters)
        self.collection.create_folder(_local_folder(path))
        return self

    @classmethod
    @known_keywords
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        threshold: float | None = None,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        sketch: Sketch | BitSketch | str | None = None,
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
        memory: int | str | None = None,
        evidence: EvidenceName | None = None,
        read: Read | None = None,
    ) -> Self:
        """Open the index in the folder `path`, as of its newest commit.

        All given parameters must match the index. `read` is for `evidence="source"`, as in `Index`. With `check`,
        every file is read once and compared with its checksum; otherwise only sizes are compared.

        Raises InputError if there is no index, another version made it, or a file is missing or damaged. Raises
        ParameterError with each parameter that differs.
        """
        check_choice("check", check, (True, False))
        check_choice("evidence", evidence, (None, *get_args(EvidenceName)))
        self = cls(backend=backend, threads=threads, devices=devices, memory=memory)
        ops, spill = self.collection.ops, self.collection.spill
        collection = Collection.open(_local_folder(path), ops, spill, check=check, read=read)
        _check_read(read, collection.evidence)
        sketch, _ = sketches_by_name(sketch, None, num_perm, seed, distance)
        given = given_parameters(
            threshold=threshold,
            shingling=shingling,
            folding=folding,
            sketch=sketch,
            num_perm=num_perm,
            bands=bands,
            rows=rows,
            seed=seed,
            distance=distance,
            measure=measure,
        )
        differences = collection.method.differences(given)
        if evidence not in (None, collection.evidence):
            differences = [*differences, f"evidence {collection.evidence!r} and {evidence!r} was given"]
        if differences:
            raise ParameterError(
                f"{path}: the index was made with {', with '.join(differences)}; give the index's parameters, or"
                " none, or build another index"
            )
        self.collection = collection
        return self

    @property
    def path(self) -> Path | None:
        """The index's folder; None while it is in memory only."""
        return self.collection.path

    @property
    def parameters(self) -> Method:
        """All parameters that decide about candidates and duplicates."""
        return self.collection.method

    def __repr__(self) -> str:
        return f"<gpulsh.Index in {self.path or 'memory'}, of threshold {self.parameters.threshold}>"

    def __len__(self) -> int:
        """The number of documents in the index: inserted or added, dropped or not, and not removed."""
        return sum(self.collection.contents.counts())

    def dropped(self) -> int:
        """The number of documents in the index that `add` dropped."""
        return self.collection.contents.counts()[1]

    def __contains__(self, key: object) -> bool:
        """Whether a document of the index, held or dropped, has the key."""
        if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)):
            return False
        try:
            array, _ = checked_keys([key], "key")
        except ParameterError:  # no key can be half a surrogate pair, or an integer beyond 64 bits
            return False
        return int(self.collection.contents.find(sorted_keys(array))[0]) != ABSENT

    def insert(self, keys: object, texts: object) -> None:
        """Hold all documents, even duplicates; `texts` is any kind that `deduplicate` takes.

        Raises ParameterError if a key occurs twice or is already in the index, InputTypeError if a row is not a text.
        Then the index is unchanged.
        """
        array, source = self._checked(keys, texts)
        with self._exclusive():
            self._add(array, source, decide=False)

    def add(self, keys: object, texts: object) -> Added:
        """Hold the documents that duplicate no earlier one, and remember the others as dropped.

        It decides as `deduplicate` does over all documents ever added, in order. A document is dropped if it is an
        exact copy of an earlier one, or if its similarity to a held one is at least `threshold`. By containment, it is
        dropped if a held one contains at least `threshold` of its shingles. Raises as `insert` does.
        """
        array, source = self._checked(keys, texts)
        with self._exclusive():
            numbers = self._add(array, source, decide=True)
            found = Documents.joined(self.collection.decisions(numbers))
            keep = found.witness == found.number
            duplicate_of = as_numpy(array).copy()
            duplicate_of[~keep] = as_numpy(self.collection.contents.keys(found.witness[~keep]))
        return Added(keep, duplicate_of, found.similarity.astype(np.float32))

    def query(self, texts: object, *, threshold: float | None = None, top: int | None = None) -> Matches:
        """Find the held documents that share a band with each text, at a similarity of `threshold` or more.

        By containment, find all that contain at least `threshold` of it. `texts` is any kind that `deduplicate` takes.
        `threshold` is at least the index's, which is the default. `top` limits the results for each text to the most
        similar documents; ties go to the earlier. Raises InputTypeError if a row is not a text, and ParameterError for
        a lower threshold or a `top` below 1.

        >>> index = Index(threshold=0.5, backend="cpu")
        >>> index.insert(["a", "b"], ["one two three four five six", "one two three four five six seven"])
        >>> for position, key, similarity in index.query(["One two three four five six."], top=1):
        ...     print(position, key, similarity)
        0 a 1.0
        """
        snapshot = self.collection.contents
        source = open_texts(texts, self.collection.ops)
        positions, numbers, similarity = self.collection.find_similar(source, snapshot, threshold, top)
        return Matches(positions, as_numpy(snapshot.keys(numbers)), similarity)

    def find(self, text: str | bytes, *, tokens: int | None = None) -> Stretches:
        """Find held documents that share passages with a text, and the places of these passages in the text.

        A passage is a run of consecutive shingles of the text that a document also has, as long as possible. It has at
        least `tokens` tokens; None: at least one shingle. `text` is a string, or bytes of UTF-8. An index stores
        shingles without their order. So it does not know where the passage is in the earlier document; its shingles may
        even be scattered there. Without containment, gpulsh reads the shingles of all held documents. It does not
        find passages of documents that `add` dropped, unless their kept duplicate has them, too. Raises InputTypeError
        for another type, and ParameterError for a `tokens` below 1 or an index whose shingling has stop words, stems or
        an anchor.

        >>> index = Index(shingling="word:3", backend="cpu")
        >>> index.insert(["a", "b"], ["to be or not to be", "that is the question"])
        >>> list(index.find("He said: to be or not, that is the question.", tokens=4))
        [('a', 9, 21, 4), ('b', 23, 43, 4)]
        """
        if not isinstance(text, (str, bytes)):
            raise InputTypeError(f"text is {shown_type(text)}; give one str, or bytes of UTF-8")
        encoded = text if isinstance(text, bytes) else text_bytes(text)
        collection = self.collection
        keys = collection.evidence_keys
        return find_stretches(encoded, tokens, collection.contents, self.parameters, keys, collection.ops)

    def buckets(self) -> Iterator[tuple[int, Values]]:
        """Iterate over the buckets of two or more held documents: the band, and the keys in the order of insertion.

        Bands come in order, and one is in memory at a time. By containment, there is one band, and documents that share
        a shingle share a bucket. The keys are int64 [b] or an object array of str, as in `Matches`. Once iteration has
        begun, later changes do not affect it.

        >>> index = Index(threshold=0.5, num_perm=4, bands=2, backend="cpu")
        >>> index.insert(["a", "b", "c"], ["one two three", "One, two, three!", "four"])
        >>> [(band, keys.tolist()) for band, keys in index.buckets()]
        [(0, ['a', 'b']), (1, ['a', 'b'])]
        """
        snapshot = self.collection.contents
        for band, buckets in enumerate(held_buckets(snapshot, self.parameters.banding.bands, self.collection.ops)):
            keys = as_numpy(snapshot.keys(buckets.ids))
            for start, stop in pairwise(buckets.offset.tolist()):
                yield band, keys[start:stop]

    def pairs(self) -> Pairs:
        """Find every pair of held documents that share a bucket, at a similarity of `threshold` or more, once.

        By containment, find every pair in which the earlier document contains at least `threshold` of the other. All
        pairs of a bucket are compared, so many inserted copies make very many pairs.

        >>> index = Index(threshold=0.5, backend="cpu")
        >>> index.insert([10, 20, 30], ["one two three", "One, two, three!", "four"])
        >>> found = index.pairs()
        >>> found.first, found.second, found.similarity
        (array([10]), array([20]), array([1.]))
        """
        snapshot = self.collection.with_met_sets(self.collection.contents)
        numbers, similarity = similar_pairs(snapshot, self.parameters, self.collection.ops)
        first, second = (as_numpy(snapshot.keys(column)) for column in numbers.T)
        return Pairs(first, second, similarity)

    def counts(self) -> Counts:
        """Count the exact copies and near-duplicates that `add` dropped for each held document.

        Removed documents do not count. Two halves of a corpus, added one after the other, give the same counts as the
        whole corpus.

        >>> index = Index(threshold=0.5, backend="cpu")
        >>> index.add(
        ...     [1, 2, 3], ["one two three four five six", "One, two three four five six!", "one two"]
        ... ).keep
        array([ True, False,  True])
        >>> for key, copies, near in index.counts():
        ...     print(key, copies, near)
        1 1 0
        3 0 0
        """
        snapshot = self.collection.contents
        number, copies, near = snapshot.occurrences()
        return Counts(as_numpy(snapshot.keys(number)), copies, near)

    def remove(self, keys: object) -> None:
        """Forget documents, held or dropped, and the documents dropped for them. Their keys are free again.

        Raises ParameterError if a key is not in the index. Then the index is unchanged.
        """
        array, kind = checked_keys(keys)
        if kind is None:
            return
        with self._exclusive():
            self.collection.begin_change()
            numbers = self.collection.contents.find(sorted_keys(array))
            missing = np.flatnonzero(numbers == ABSENT)
            if len(missing):
                key = array[int(missing[0])].as_py()
                if len(missing) > 1:
                    raise ParameterError(f"{len(missing):,} keys are not in the index, such as {key!r}; leave them out")
                raise ParameterError(f"the key {key!r} is not in the index; leave it out")
            self.collection.forget(numbers)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Commit all changes to the index's folder, or to `path`, absent or empty, which becomes the index's folder.

        Raises OutputError if it cannot be written, or if another process has changed it since this Index was closed.
        Earlier commits stay intact.
        """
        folder = None if path is None else _local_folder(path)
        with self._exclusive():
            self.collection.save(folder)

    def compact(self) -> None:
        """Merge all segments into one without removed documents; in a folder, commit it and remove the old files.

        Raises OutputError if it cannot be written, or if another process writes to it. Earlier commits stay intact.
        """
        with self._exclusive():
            self.collection.compact()

    def close(self) -> None:
        """Let other processes write; changes since the last `save` are not committed."""
        with self._exclusive():
            self.collection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        with self._exclusive():
            self.collection.close(save=kind is None)
        count = len(self) if self.collection.changed and self.path is None else 0
        if kind is None and count:
            warnings.warn(f"the index is in memory only, documents unsaved: {count}; call save(path)", stacklevel=2)

    def __reduce__(self) -> NoReturn:
        raise ParameterError("an Index cannot be pickled or copied; save it, and open its folder again")

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if self.collection.rereader is not None:
            self.collection.rereader.refuse_reentry()
        with self._writing.setdefault(os.getpid(), Lock()):
            yield

    def _checked(self, keys: object, texts: object) -> tuple[pa.Array, MemoryTexts]:
        """Checked keys, and as many opened texts."""
        if isinstance(keys, (set, frozenset)):
            raise ParameterError(f"keys is {shown_type(keys)}, which has no order; give a list, a key for each text")
        source = open_texts(texts, self.collection.ops)
        array, _ = checked_keys(keys)
        if len(array) != len(source):
            given = f"{plural(len(array), 'key')} for {plural(len(source), 'text')}"
            raise ParameterError(f"keys has {given}; give one key for each text")
        return array, source

    def _add(self, keys: pa.Array, source: MemoryTexts, *, decide: bool) -> range:
        """Add the documents to the collection; their numbers."""
        again = self.collection.rereader
        if again is not None and again.read is None:
            raise ParameterError(
                "evidence is 'source', and read is None; give read, a function from a list of keys to their texts"
            )
        return self.collection.add(source, lambda: [keys], decide=decide, known=keys)


def _local_folder(path: object) -> Path:
    """The folder of an index, the same after the program changes its own folder; ParameterError for a URL."""
    folder = checked_folder("path", path)
    if is_url(folder):
        raise ParameterError(f"path is {folder!r}, and an index is a local folder; give its path")
    return Path(folder).absolute()


def _check_read(read: object, evidence: EvidenceName) -> None:
    if read is None:
        return
    if not callable(read):
        raise ParameterError(f"read is of type {type(read).__name__}; give a function from a list of keys to texts")
    if evidence == "index":
        raise ParameterError("read is given, and the index holds its evidence itself; leave it out")
