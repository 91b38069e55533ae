"""Fingerprints of documents from their texts: of new ones, and of held ones whose texts are read again.

The index holds the keyed exact hash of each text, and compares it when the text is read again. So a changed text is an
error, never evidence.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock, get_ident
from typing import Any

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Numbers, TextBatch
from gpulsh.backends.parts import halves_of_batch, run_in_fitting_halves, run_in_fitting_parts
from gpulsh.backends.protocol import Backend
from gpulsh.checks import is_url, plural
from gpulsh.errors import ChangedInputError, InputError, ParameterError
from gpulsh.index.evidence.places import NO_SOURCE, Source
from gpulsh.index.segment import Segment
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import SeekTable, texts_of_rows
from gpulsh.io.memory.texts import open_texts, texts_named
from gpulsh.io.rows import Bytes, gather_texts, join_texts, normalized, split_batch
from gpulsh.io.urls import cannot_open
from gpulsh.lsh.signing import SMALLEST_SIGNATURE
from gpulsh.method import Method
from gpulsh.params import Shingling
from gpulsh.ragged import concat_rows, concat_texts, offsets, row_ranges, run_bounds, select_rows
from gpulsh.secret import EvidenceKeys

Read = Callable[[list[Any]], object]  # from a list of keys to their texts, of any kind that `deduplicate` takes
TEXT_BYTES = 6  # about the text of one fingerprint
READ_AT_ONCE = 64 << 20  # about the bytes of text in memory


@dataclass(frozen=True, eq=False)
class TextRereader:
    """Reads the texts of held documents again, one thread at a time: by `read`, or from their places."""

    method: Method
    keys: EvidenceKeys
    read: Read | None = None
    locks: dict[int, Lock] = field(default_factory=dict)  # by process, as for changes of an `Index`
    reading: set[tuple[int, int]] = field(default_factory=set)  # processes and threads that are in `read`
    seek_tables: dict[Source, SeekTable | None] = field(default_factory=dict)  # of sources; None: read once

    def fingerprints(self, segment: Segment, rows: Numbers, ops: Backend) -> Fingerprints:
        """The unique fingerprints of the documents `rows` [m] of a segment, in that order, in host memory.

        InputError or ChangedInputError if one of their texts is gone or is another one now.
        """
        self.refuse_reentry()
        assert segment.places is not None
        places = segment.places.where(rows)
        order = np.lexsort((places.row, places.source))
        sizes = segment.documents.size[rows[order]] * np.int64(TEXT_BYTES)
        with self.locks.setdefault(os.getpid(), Lock()):
            parts = [
                self._checked_sets(segment, rows[order[a:b]], ops) for a, b in row_ranges(offsets(sizes), READ_AT_ONCE)
            ]
        return select_rows(concat_rows(parts), np.argsort(order))

    def refuse_reentry(self) -> None:
        """ParameterError in a thread that is in `read`, which would wait for itself."""
        if (os.getpid(), get_ident()) in self.reading:
            raise ParameterError("read uses its own index, which waits for read; give a function that reads elsewhere")

    def _checked_sets(self, segment: Segment, rows: Numbers, ops: Backend) -> Fingerprints:
        try:
            return self._read_sets(segment, rows, ops)
        except InputError:
            if not any(self.seek_tables.values()):
                raise
            self.seek_tables.clear()  # a file may have changed; and errors name lines, which only a whole file shows
            return self._read_sets(segment, rows, ops)

    def _read_sets(self, segment: Segment, rows: Numbers, ops: Backend) -> Fingerprints:
        reading = self.method.backend_shingling
        found = self._read_places(segment, rows, ops) if self.read is None else self._call_read(segment, rows, ops)
        batch = normalized(found, self.method.folding.form)
        with ops.use_device():
            pieces = split_batch(batch, ops.sizes().batch)
            parts = [ops.asnumpy(ops.sign(piece, reading, *SMALLEST_SIGNATURE, self.keys).exact) for piece in pieces]
        others = np.flatnonzero(~segment.has_hashes(rows, np.concatenate(parts)))
        if len(others):
            raise self._changed_text(segment, rows[others[:1]])
        return fingerprint_sets(batch, np.arange(len(batch)), reading, self.keys, ops)

    def _read_places(self, segment: Segment, rows: Numbers, ops: Backend) -> TextBatch:
        assert segment.places is not None
        places = segment.places.where(rows)
        nowhere = np.flatnonzero(places.source == NO_SOURCE)
        if len(nowhere):
            key = segment.keys_at(rows[nowhere[:1]])[0].as_py()
            raise ParameterError(
                f"the index has neither the text of {key!r} nor its place; open it in Python with read=, a function"
                " from a list of keys to their texts"
            )

        def read(bounds: tuple[int, int]) -> list[bytes]:
            start, stop = bounds
            return texts_at(places.sources[int(places.source[start])], places.row[start:stop], self.seek_tables)

        files = list(run_bounds(places.source))  # the rows of each file ascend
        with ThreadPoolExecutor(min(len(files), ops.sizes().readers)) as pool:
            texts: list[Bytes] = [text for found in pool.map(read, files) for text in found]
        return join_texts(texts)

    def _call_read(self, segment: Segment, rows: Numbers, ops: Backend) -> TextBatch:
        assert self.read is not None
        keys = segment.keys_at(rows).to_pylist()
        here = os.getpid(), get_ident()
        self.reading.add(here)
        try:
            given = self.read(keys)
            with texts_named("what read gave"):
                source = open_texts(given)
        finally:
            self.reading.discard(here)
        if len(source) != len(keys):
            said = f"read gave {plural(len(source), 'text')} for {plural(len(keys), 'key')}"
            raise ParameterError(f"{said}; give a text for each key, in their order")
        with texts_named("what read gave"):
            return concat_texts([*source.batches(ops.sizes().batch), *open_texts([]).batches(1)])

    def _changed_text(self, segment: Segment, row: Numbers) -> ChangedInputError:
        assert segment.places is not None
        places, (key,) = segment.places, segment.keys_at(row).to_pylist()
        where, source = f"key {key!r}", int(places.source[row[0]])
        if self.read is None and source != NO_SOURCE:
            where = f"{places.sources[source].path}: row {places.row[row[0]]}"
        return ChangedInputError(
            f"{where}: differs from the text that was added to the index; restore that text, or remove {key!r} from the"
            " index"
        )


def texts_at(source: Source, rows: Numbers, tables: dict[Source, SeekTable | None]) -> list[bytes]:
    """The texts at ascending rows of a source; an InputError of one line if they cannot be read.

    A source gets a table when it is read again: one reading needs none.
    """
    file = file_of(source)
    try:
        known = tables.get(source)
        if known is None and source in tables:
            known = SeekTable(file)
        tables[source] = known
        found = known.texts(source.text, rows) if known else texts_of_rows(file, source.text, rows)
        return [*map(bytes, found)]  # copies: a piece keeps its block in memory
    except ChangedInputError:
        raise ChangedInputError(
            f"{file.name}: has fewer rows than when it was added to the index; restore it"
        ) from None
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise InputError(
                f"{file.name}: is gone, and the index reads texts there again; restore it, or remove its documents"
                " from the index"
            ) from None
        raise


def file_of(source: Source) -> File:
    """The file of a source, which messages call by its whole path."""
    path, filesystem = source.path, None
    if is_url(path):
        try:
            import fsspec

            filesystem, path = fsspec.core.url_to_fs(path)
        except Exception as error:
            raise cannot_open(path, error) from error
    return File(
        source.path,
        source.name,
        path,
        filesystem,
        lines=source.lines,
        as_text=source.as_text,
        delimiter=source.delimiter,
        encoding=source.encoding,
        intact_only=source.intact_only,
    )


def fingerprint_sets(
    batch: TextBatch, rows: Numbers, shingling: Shingling, keys: EvidenceKeys, ops: Backend
) -> Fingerprints:
    """The unique fingerprints, as evidence, of the documents `rows` [m] of a batch, in host memory."""
    begin, end = batch.offset[rows], batch.offset[rows + 1]
    on_host = isinstance(batch.values, np.ndarray)
    texts = gather_texts(batch.values, begin, end) if on_host else ops.gather(batch.values, begin, end)

    def whole(part: TextBatch) -> Fingerprints:
        return ops.shingle_sets(part, shingling, keys).moved(ops.asnumpy)

    def by_range(one: TextBatch) -> Fingerprints:
        def found(parts: int) -> list[Array]:
            return [ops.asnumpy(ops.shingle_part(one, shingling, part, parts, keys).values) for part in range(parts)]

        values = np.concatenate(run_in_fitting_parts(found, 2)[0])  # the ranges ascend
        return Fingerprints(values, np.array([0, len(values)], np.int64))

    return concat_rows([sets for _, sets in run_in_fitting_halves(texts, whole, halves_of_batch, by_range)])
