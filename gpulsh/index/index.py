"""`gpulsh.Index`: near-duplicates of documents that came earlier, found without their texts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Values
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.index.answers import Added, Matches, Pairs
from gpulsh.index.catalogue import Catalogue
from gpulsh.index.holdings import NOBODY
from gpulsh.index.keys import as_numpy, checked_keys
from gpulsh.index.segments.segment import Documents
from gpulsh.index.shelves import spill_bytes
from gpulsh.index.walk import held_buckets, similar_pairs
from gpulsh.io.limits import LEAST_MEMORY
from gpulsh.io.memory.texts import MemoryTexts, open_texts
from gpulsh.method import Asked, MeasureName, Method
from gpulsh.params import (
    BitSketch,
    Folding,
    Shingling,
    Sketch,
    check_choice,
    check_integer,
    checked_folder,
    known_keywords,
)
from gpulsh.secret import chosen_secret
from gpulsh.sketch.named import sketches_named


class Index:
    """Documents by key. It finds similar ones later, verifies them exactly, and needs no texts for that.

    Its parameters are those of `deduplicate`, without `verify` (it is exact), `resolve`, `also` and `priority`. Give
    `folding=Folding(form=...)` for `normalize`. With `sketch=SimHash(...)` documents meet in tables of a Hamming search
    within `distance`, which then are the bands. With `measure="containment"`, whatever the sketch, a document is
    dropped if a held one contains at least `threshold` of its shingles; each shingle takes 16 bytes more. The first
    document is always kept: an index cannot put the longest first as `deduplicate` does, so it keeps a page that comes
    after a quotation of it. Keys are strings, or integers of 64 bits, each once. With a folder, `memory` bytes, at
    least 512 MiB, bound what `insert` and `add` hold; None takes what serves speed. The index computes its evidence
    under a secret of 256 bits, which lies in its folder; tests give it as `secret`.

    A document is *in the index* from `insert` or `add` until `remove`, also where `add` dropped it: `in`, `len` and
    `remove` mean these documents, and no other one may have their keys. A document that was not dropped is *held*.
    `query`, `buckets` and `pairs` find held documents, and `len(index) - index.dropped()` counts them.

    An index lives in memory until `save(path)`; `Index.open(path)` finds it there again. Any number of processes may
    open it. The first one that changes it is the writer until it closes it, and the others are refused. `save` commits
    all changes or none. A `with` block that ends without an exception saves an index that has a folder; for one in
    memory alone it warns of unsaved documents. After an exception it does neither.

    Threads may share an Index. One of them changes or saves it at a time, and others wait for that. Queries do not
    wait: each sees the index as it was when the query began, with all changes of another call or none. A forked process
    reads the index of its parent, and writes only after the parent has closed it. An Index cannot be pickled.

    Raises ParameterError for wrong parameters, BackendError where CUDA is requested and does not work.

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
        memory: int | None = None,
        secret: bytes | None = None,
    ) -> None:
        sketch, _, distance = sketches_named(sketch, None, num_perm, seed, distance)
        asked = Asked(threshold, shingling, folding, sketch, num_perm, bands, rows, seed, distance, measure)
        method = asked.method()
        if memory is not None:
            memory = check_integer("memory", memory, LEAST_MEMORY, 1 << 62)
        # Hashes of batches, and what is held already, take the rest of the memory.
        part = None if memory is None else memory // 4
        ops = select_backend(backend, threads=threads, devices=devices, memory=part)
        self.catalogue = Catalogue(method, chosen_secret(secret), ops, spill_bytes(memory))
        self._writing = Lock()

    @classmethod
    def create(cls, path: str | os.PathLike[str], **parameters: Any) -> Self:
        """A new index, with the parameters of `Index`, that will lie in the folder `path`, which is made or empty.

        What grows large in memory goes to the folder at once. The first `save` makes an index of it; an Index that is
        closed before that removes what it made. Raises OutputError where the folder cannot be used.
        """
        self = cls(**parameters)
        self.catalogue.begin_in(Path(checked_folder("path", path)))
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
        memory: int | None = None,
    ) -> Self:
        """The index in the folder `path`, as of its newest commit.

        Parameters that are given must be the index's own. With `check`, every file is read once and compared with its
        checksum; without, only their sizes are.

        Raises InputError where there is no index, another version made it, or a file of it is missing or damaged;
        ParameterError that names each parameter that differs.
        """
        check_choice("check", check, (True, False))
        self = cls(backend=backend, threads=threads, devices=devices, memory=memory)
        catalogue = self.catalogue.opened(Path(checked_folder("path", path)), check=check)
        sketch, _, distance = sketches_named(sketch, None, num_perm, seed, distance)
        asked = Asked(threshold, shingling, folding, sketch, num_perm, bands, rows, seed, distance, measure)
        if differences := asked.differences(catalogue.method):
            raise ParameterError(
                f"{path}: the index was made with {', with '.join(differences)}; give the index's own parameters, or"
                " none, or build another index"
            )
        self.catalogue = catalogue
        return self

    @property
    def path(self) -> Path | None:
        """The folder that the index lies in; None while it is in memory alone."""
        return self.catalogue.path

    @property
    def parameters(self) -> Method:
        """What decides which documents meet and which are duplicates."""
        return self.catalogue.method

    def __repr__(self) -> str:
        return f"<gpulsh.Index in {self.path or 'memory'}, of threshold {self.parameters.threshold}>"

    def __len__(self) -> int:
        """How many documents are in the index: inserted or added, also those that were dropped, and not removed."""
        return sum(self.catalogue.counts())

    def dropped(self) -> int:
        """How many of them `add` dropped."""
        return self.catalogue.counts()[1]

    def __contains__(self, key: object) -> bool:
        """Whether a document of the index, held or dropped, has the key."""
        if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)):
            return False
        array, kind = checked_keys([key], "key")
        return int(self.catalogue.find(array, kind)[0]) != NOBODY

    def insert(self, keys: object, texts: object) -> None:
        """Hold the documents, whatever they resemble; `texts` is any kind that `deduplicate` takes.

        Raises ParameterError where a key comes twice or is there, InputTypeError where a row is no text; then the index
        is as it was.
        """
        given = self._given(keys, texts)
        with self._writing:
            self._take_in(*given, decide=False)

    def add(self, keys: object, texts: object) -> Added:
        """Hold the documents that duplicate no earlier one, and know the others.

        The decision is that of `deduplicate` over everything that was ever added, in order: a document is dropped when
        it is an exact copy of an earlier one, or a held one is at least `threshold` similar or, by containment,
        contains so much of it. Raises as `insert` does.
        """
        array, kind, source = self._given(keys, texts)
        with self._writing:
            numbers = self._take_in(array, kind, source, decide=True)
            found = Documents.joined(self.catalogue.decisions(numbers))
            keep = found.witness == found.number
            duplicate_of = as_numpy(array).copy()
            duplicate_of[~keep] = as_numpy(self.catalogue.holdings().keys(found.witness[~keep]))
        return Added(keep, duplicate_of, found.similarity.astype(np.float32))

    def query(self, texts: object, *, threshold: float | None = None, top: int | None = None) -> Matches:
        """For each text the held documents that share a band with it and are at least `threshold` similar.

        By containment, all that contain at least `threshold` of it. `texts` is any kind that `deduplicate` takes. A
        `threshold` given here is the index's own, which None stands for, or above it. `top` is the most documents that
        are found for a text: the most similar ones, ties to the earlier. Raises InputTypeError where a row is no text,
        ParameterError for a lower threshold or a `top` below 1.

        >>> index = Index(threshold=0.5, backend="cpu")
        >>> index.insert(["a", "b"], ["one two three four five six", "one two three four five six seven"])
        >>> for position, key, similarity in index.query(["One two three four five six."], top=1):
        ...     print(position, key, similarity)
        0 a 1.0
        """
        holdings = self.catalogue.holdings()
        source = open_texts(texts, self.catalogue.ops)
        positions, numbers, similarity = self.catalogue.find_similar(source, holdings, threshold, top)
        return Matches(positions, as_numpy(holdings.keys(numbers)), similarity)

    def buckets(self) -> Iterator[tuple[int, Values]]:
        """Each bucket of two held documents or more: the number of its band, and the documents' keys, first in first.

        Bands come in order, one of them is in memory at a time; by containment there is one, whose buckets are of the
        documents that share a shingle. The keys are int64 [b] or an object array of str, as those of `Matches` are. The
        buckets are those of the moment when the first one is taken, whatever changes later.

        >>> index = Index(threshold=0.5, num_perm=4, bands=2, backend="cpu")
        >>> index.insert(["a", "b", "c"], ["one two three", "One, two, three!", "four"])
        >>> [(band, keys.tolist()) for band, keys in index.buckets()]
        [(0, ['a', 'b']), (1, ['a', 'b'])]
        """
        holdings = self.catalogue.holdings()
        for band, buckets in enumerate(held_buckets(holdings, self.parameters.banding.bands, self.catalogue.ops)):
            keys = as_numpy(holdings.keys(buckets.ids))
            for start, stop in pairwise(buckets.offset.tolist()):
                yield band, keys[start:stop]

    def pairs(self) -> Pairs:
        """Every pair of held documents that share a bucket and are at least `threshold` similar, once.

        By containment, every pair of which the one that came first contains at least `threshold` of the other.
        All pairs of a bucket are looked at: of very many copies that were inserted, not added, there are many.

        >>> index = Index(threshold=0.5, backend="cpu")
        >>> index.insert([10, 20, 30], ["one two three", "One, two, three!", "four"])
        >>> found = index.pairs()
        >>> found.first, found.second, found.similarity
        (array([10]), array([20]), array([1.]))
        """
        holdings = self.catalogue.holdings()
        numbers, similarity = similar_pairs(holdings, self.parameters, self.catalogue.ops)
        first, second = (as_numpy(holdings.keys(column)) for column in numbers.T)
        return Pairs(first, second, similarity)

    def remove(self, keys: object) -> None:
        """Forget documents, held or dropped; with a held one those that it was the witness of. Their keys are free.

        Raises ParameterError where a key is not there; then the index is as it was.
        """
        array, kind = checked_keys(keys)
        if kind is None:
            return
        with self._writing:
            self.catalogue.begin_change()
            numbers = self.catalogue.find(array, kind)
            missing = np.flatnonzero(numbers == NOBODY)
            if len(missing):
                key = array[int(missing[0])].as_py()
                raise ParameterError(f"keys[{missing[0]}] is {key!r}, which is not in the index")
            self.catalogue.forget(numbers)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Commit all changes: to the folder `path`, made or empty, in which the index lies from then on, or to its own.

        Raises OutputError where it cannot be written, or another process wrote to it since this Index was closed; what
        was committed before is still there.
        """
        folder = None if path is None else Path(checked_folder("path", path))
        with self._writing:
            self.catalogue.save(folder)

    def compact(self) -> None:
        """Merge all segments into one without removed documents; on disk, commit that and remove unneeded files.

        Raises OutputError where it cannot be written, or another process writes to it; what was committed before is
        still there.
        """
        with self._writing:
            self.catalogue.compact()

    def close(self) -> None:
        """Let others write; changes since the last `save` are not committed."""
        with self._writing:
            self.catalogue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        with self._writing:
            self.catalogue.close(save=kind is None)
            count = self.catalogue.unsaved()
        if kind is None and count:
            told = f"the index lies in memory alone, and {count} documents are not saved; call save(path)"
            warnings.warn(told, stacklevel=2)

    def __reduce__(self) -> NoReturn:
        raise ParameterError("an Index cannot be pickled or copied; save it, and open its folder again")

    def _given(self, keys: object, texts: object) -> tuple[pa.Array, str | None, MemoryTexts]:
        """Checked keys, their kind, and opened texts, as many."""
        source = open_texts(texts, self.catalogue.ops)
        array, kind = checked_keys(keys)
        if len(array) != len(source):
            raise ParameterError(f"keys are {len(array)} and texts {len(source)}; give one key for each text")
        return array, kind, source

    def _take_in(self, keys: pa.Array, kind: str | None, source: MemoryTexts, *, decide: bool) -> range:
        """The documents' numbers."""
        own = self.catalogue.new_keys(keys, kind)
        return self.catalogue.take_in(source, lambda: [keys], decide=decide, known=own)
