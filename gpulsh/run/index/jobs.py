"""Builds indexes of files, adds to them and queries them, document by document in the order of the files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import select_backend
from gpulsh.checks import MAX_INT64, checked_folder
from gpulsh.errors import InputError, ParameterError
from gpulsh.index.collection import Collection
from gpulsh.index.evidence.places import Origin, Source, place_keys
from gpulsh.index.folder import commit_count
from gpulsh.index.index import Index
from gpulsh.index.keys import KeyNames, key_kind, sorted_keys
from gpulsh.index.segment import Documents
from gpulsh.index.snapshot import ABSENT, Snapshot
from gpulsh.io.arrow.buffers import large_type, null_mask, number_values, string_array, to_arrow
from gpulsh.io.arrow.ids import joined_ids
from gpulsh.io.arrow.rows import has_views, is_coded
from gpulsh.io.columns import Columns, text_named
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files, refuse_unused
from gpulsh.io.files.pipes import Streams
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.formats.endings import format_of, row_name
from gpulsh.io.stamps import Stamps
from gpulsh.ragged import offsets, sorted_distinct
from gpulsh.run.output.paths import refuse_inside, refuse_overlap, refuse_present, refuse_url, with_mark
from gpulsh.run.progress import open_progress
from gpulsh.stats.stages import INDEX_STAGES
from gpulsh.store.durable import durable_file, writing

ENDINGS = (".parquet", ".jsonl")
ROWS_AT_ONCE = 1 << 16  # written together
KEYS_AT_ONCE = 1 << 18

COLUMNS = ("file", "row", "id", "duplicate_of", "similarity")  # of the output
COUNT_COLUMNS = ("key", "copies", "near")


@dataclass(frozen=True)
class Listing:
    """Rows about documents of an index, which a command prints or writes to a file."""

    count: int
    tables: Callable[[], Iterator[pa.Table]]  # all rows, in one table or more

    def __len__(self) -> int:
        return self.count

    def lines(self) -> Iterator[str]:
        """Yield the rows as JSON lines."""
        for table in self.tables():
            for row in table.to_pylist():
                yield json.dumps(row, ensure_ascii=False, default=str)

    def write(self, path: Path) -> None:
        """Write a complete file or none, as Parquet or JSON lines by its ending."""
        with writing(path), durable_file(path) as file:
            if path.suffix == ".jsonl":
                for line in self.lines():
                    file.write(line.encode("utf-8", "replace") + b"\n")
                return
            tables = self.tables()
            first = next(tables)
            with pq.ParquetWriter(file, with_mark(first.schema), compression="zstd", version="2.6") as out:
                for table in (first, *tables):
                    out.write_table(table.replace_schema_metadata(with_mark(table.schema).metadata))


def duplicate_rows(
    snapshot: Snapshot, texts: FileTexts, positions: Numbers, numbers: Numbers, similarity: NDArray[np.float64]
) -> Iterator[pa.Table]:
    """Documents of files at `positions` [m], and by `numbers` [m] the documents of an index that they duplicate.

    Tables of file, row, id (null without an id column), duplicate_of (a key) and similarity.
    """
    names = string_array([file.name for file in texts.files])
    named = sorted_distinct(positions)
    with texts.unchanged():
        column, ids = texts.columns.id, pa.nulls(len(named))
        if column is not None:
            ids = _checked_ids(texts, named, texts.values(column, named), texts.column_types(column))
    for start in range(0, max(len(positions), 1), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        files, rows = texts.locate(positions[part])
        columns = {
            "file": names.take(to_arrow(files)),
            "row": to_arrow(rows),
            "id": ids.take(to_arrow(np.searchsorted(named, positions[part]))),
            "duplicate_of": snapshot.keys(numbers[part]),
            "similarity": to_arrow(similarity[part]),
        }
        yield pa.table(columns)


def index_counts(
    path: str | os.PathLike[str], *, output: str | os.PathLike[str] | None = None, overwrite: bool = False
) -> Listing:
    """The exact copies and near-duplicates dropped for each held document, written to `output`, .parquet or .jsonl.

    Rows of key, copies and near, in the order of insertion.
    """
    refuse_output(output, os.fspath(path), COUNT_COLUMNS, overwrite)
    snapshot = Index.open(path, backend="reference").collection.contents
    number, copies, near = snapshot.occurrences()

    def tables() -> Iterator[pa.Table]:
        for start in range(0, max(len(number), 1), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            columns = [snapshot.keys(number[part]), to_arrow(copies[part]), to_arrow(near[part])]
            yield pa.table(columns, names=list(COUNT_COLUMNS))

    found = Listing(len(number), tables)
    if output is not None:
        found.write(Path(output))
    return found


def build_index(path: str | os.PathLike[str], inputs: Sequence[str], **options: Any) -> dict[str, int]:
    """A new index of files in the folder `path`, with near-duplicates dropped as `deduplicate` does; the counts.

    A document's key is its value of `id_column`, a string or an integer, or FILE:ROW. The evidence of dropped documents
    is written to `output` before the index is committed. `text_column`, `lines`, `as_text`, `delimiter` and `encoding`
    are options of `deduplicate_files`, all others of `Index`. Raises as `Index.create` and `Index.add` do, and then
    leaves `path` unchanged.
    """
    return _add_files(Index.create, path, inputs, **options)


def add_to_index(path: str | os.PathLike[str], inputs: Sequence[str], **options: Any) -> dict[str, int]:
    """Add to an index, with the parameters of `build_index` and `Index.open`; documents in the index come first."""
    return _add_files(Index.open, path, inputs, **options)


def _add_files(
    open_index: Callable[..., Index],
    path: str | os.PathLike[str],
    inputs: Sequence[str],
    *,
    text_column: str | Sequence[str] = "text",
    id_column: str | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **parameters: Any,
) -> dict[str, int]:
    folder = checked_folder("path", path)
    refuse_url(folder)
    texts = _open_texts(inputs, text_column, id_column, parameters)
    refuse_overlap(folder, inputs, texts.files)
    refuse_output(output, folder, COLUMNS, overwrite, inputs, texts.files)
    shown = open_progress(progress)
    with open_index(path, **parameters) as index:
        collection = index.collection
        refuse_file_row_keys(collection, path, id_column)
        size = texts.check()
        refuse_first_keys(collection, path, texts)
        origin = origin_of(texts) if collection.evidence == "source" else None
        with shown.stage("index", size, INDEX_STAGES["index"].unit):
            with texts.unchanged():
                keys, names = partial(keys_of_files, texts), names_of_files(texts)
                numbers = collection.add(texts, keys, decide=True, names=names, origin=origin, progress=shown)
            decided = collection.decisions(numbers)
            found = Documents.joined(part.where(part.witness != part.number) for part in decided)
        dropped = len(found.number)
        with shown.stage("save", None, INDEX_STAGES["save"].unit):
            collection.write()  # a kill between the output and the commit must be unlikely
            before, replaced = commit_count(folder), _inode(output)
            try:
                if output is not None:
                    columns = found.number - numbers.start, found.witness, found.similarity
                    Listing(dropped, partial(duplicate_rows, collection.contents, texts, *columns)).write(Path(output))
                index.save()
            except BaseException:
                if output is not None and _inode(output) != replaced and commit_count(folder) == before:
                    Path(output).unlink()  # its documents are in no index
                raise
        counts = {"documents": len(numbers), "kept": len(numbers) - dropped, "dropped": dropped}
        return {**counts, "held": len(index) - index.dropped()}


def _inode(output: str | os.PathLike[str] | None) -> int | None:
    """The number of the file, another one after it is replaced; None if there is none."""
    return os.stat(output).st_ino if output is not None and os.path.exists(output) else None


def refuse_file_row_keys(collection: Collection, path: str | os.PathLike[str], id_column: str | None) -> None:
    """ParameterError if the index has integer keys and new documents would get the keys FILE:ROW."""
    if id_column is None and collection.contents.kind == "integer":
        raise ParameterError(
            f"{path}: its keys are integers, and without --id-column keys are FILE:ROW; give --id-column"
        )


def refuse_first_keys(collection: Collection, path: str | os.PathLike[str], texts: FileTexts) -> None:
    """An error if the first key of a file does not fit the index, before all texts are read, which takes long.

    Keys of later rows are checked when they are taken in.
    """
    if texts.columns.id is None:
        _refuse_known_files(collection, path, texts)
    else:
        _refuse_other_ids(collection, path, texts, texts.columns.id)


def _refuse_other_ids(collection: Collection, path: str | os.PathLike[str], texts: FileTexts, column: str) -> None:
    """ParameterError if the first id of a file is no key of the index, or of a file before, by its kind."""
    known, of = collection.contents.kind, os.fspath(path)
    try:
        declared = texts.column_types(column)
    except InputError:  # reading all texts meets it again
        return
    for file in texts.files:
        with suppress(InputError):  # likewise
            first = format_of(file).values(file, column, np.zeros(1, np.int64))
            if first.null_count or not _is_key_type(first.type):  # reading all texts meets it, or the missing column
                continue
            kind = key_kind(joined_ids([first], declared))
            if known not in (None, kind):
                raise ParameterError(
                    f"{file.name}: ids in column {column!r} are of kind {kind}, and the keys in {of} are of kind"
                    f" {known}; give {known} ids"
                )
            if known is None:
                known, of = kind, file.name


def _refuse_known_files(collection: Collection, path: str | os.PathLike[str], texts: FileTexts) -> None:
    """InputError if the first key FILE:ROW of a file is in the index."""
    keys = pa.concat_arrays([place_keys(file.name, np.zeros(1, np.int64)) for file in texts.files])
    known = np.flatnonzero(collection.contents.find(sorted_keys(keys)) != ABSENT)
    if len(known):
        key, file = keys[int(known[0])].as_py(), texts.files[int(known[0])].name
        raise InputError(
            f"{path}: has a document with the key {key!r}, so it contains {file} already; leave the file out, or give"
            " --id-column"
        )


def query_index(
    path: str | os.PathLike[str],
    inputs: Sequence[str],
    *,
    text_column: str | Sequence[str] = "text",
    id_column: str | None = None,
    every: bool = False,
    top: int | None = None,
    threshold: float | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **parameters: Any,
) -> Listing:
    """Find the held documents that each document of files duplicates: the `top` most similar, by default 1, or `every`.

    There is one row for each pair. `threshold` may not be below the index's, which is the default. The result is
    written to `output` if given.
    """
    if every and top is not None:
        raise ParameterError(f"every is given, and top is {top}; give one of them")
    texts = _open_texts(inputs, text_column, id_column, parameters)
    collection = Index.open(path, **parameters).collection
    refuse_output(output, os.fspath(path), COLUMNS, overwrite, inputs, texts.files)
    shown = open_progress(progress)
    snapshot = collection.contents
    with shown.stage("query", texts.check(), INDEX_STAGES["query"].unit), texts.unchanged():
        most = None if every else 1 if top is None else top
        positions, numbers, similarity = collection.find_similar(texts, snapshot, threshold, most, shown)
    found = Listing(len(positions), partial(duplicate_rows, snapshot, texts, positions, numbers, similarity))
    if output is not None:
        found.write(Path(output))
    return found


def refuse_output(
    output: str | os.PathLike[str] | None,
    index: str,
    columns: tuple[str, ...],
    overwrite: bool,
    inputs: Sequence[str] = (),
    files: Sequence[File] = (),
) -> None:
    """ParameterError for an ending of no format; OutputError if the file exists, is an input or is inside the index."""
    if output is None:
        if overwrite:
            raise ParameterError("--overwrite is given without output, the file to replace; give output")
        return
    name = os.fspath(output)
    if Path(name).suffix not in ENDINGS:
        raise ParameterError(f"output is {name!r}; give a file that ends with {' or '.join(ENDINGS)}")
    refuse_url(name)
    refuse_overlap(name, inputs, files)
    refuse_inside(name, index, "index")
    refuse_present(output, overwrite=overwrite, columns=columns)


def _open_texts(
    inputs: Sequence[str], text: str | Sequence[str], id_column: str | None, parameters: dict[str, Any]
) -> FileTexts:
    """The documents; options for reading files are removed from the parameters."""
    read_options = ReadOptions.taken_from(parameters)
    ops = select_backend(parameters.get("backend", "auto"), threads=parameters.get("threads"))
    return open_inputs(inputs, Columns(text=text_named(text), id=id_column), read_options, ops)


def open_inputs(inputs: Sequence[str], columns: Columns, read_options: ReadOptions, ops: Backend) -> FileTexts:
    """The documents of files, folders, globs and URLs, read ahead by the reader threads of `ops`."""
    streams = Streams(read_options)
    files = find_files(list(inputs), streams=streams, options=read_options)
    refuse_unused(files, read_options)
    sizes = ops.sizes()
    texts = FileTexts(files, columns, sizes.readers, stamps=Stamps.of(files), ahead=sizes.ahead)
    texts.streams = streams
    return texts


def keys_of_files(texts: FileTexts) -> Iterator[pa.Array]:
    """The keys of all documents in order, one file at a time."""
    starts, column = texts.starts.tolist(), texts.columns.id
    declared = [] if column is None else texts.column_types(column)
    for file, (first, stop) in zip(texts.files, pairwise(starts), strict=True):
        if column is None:
            for start in range(0, stop - first, KEYS_AT_ONCE):
                yield place_keys(file.name, np.arange(start, min(start + KEYS_AT_ONCE, stop - first)))
            continue
        counts = [min(KEYS_AT_ONCE, stop - start) for start in range(first, stop, KEYS_AT_ONCE)]
        for ids in format_of(file).value_runs(file, column, counts):
            yield _checked_ids(texts, np.arange(first, first + len(ids)), [ids], declared)
            first += len(ids)


def origin_of(texts: FileTexts) -> Origin:
    """Where documents of files can be read again; ParameterError for a stream, where they cannot."""
    return Origin([Source.of(file, texts.columns.text) for file in texts.files], texts.locate)


def names_of_files(texts: FileTexts) -> KeyNames:
    """How errors name the keys of documents: by file and row."""

    def of(position: int) -> str:
        (number,), (row,) = texts.locate(np.array([position]))
        return row_name(texts.files[number], row)

    if texts.columns.id is None:
        return KeyNames(of, ": its key", "leave out what was added before, or give --id-column", error=InputError)
    repeated = "give distinct ids, or leave out --id-column: keys are then FILE:ROW"
    return KeyNames(of, ": its key", "leave it out", repeated, InputError)


def _checked_ids(
    texts: FileTexts, positions: Numbers, parts: Sequence[pa.Array], declared: Sequence[pa.DataType]
) -> pa.Array:
    """The ids of documents in `parts` as one array of strings or integers, with room for the `declared` types of files.

    InputError if one is null.
    """
    column = texts.columns.id

    def refused(at: int, what: object, remedy: str) -> InputError:
        (number,), (row,) = texts.locate(positions[[at]])
        return InputError(f"{row_name(texts.files[number], row)}: column {column!r} is {what}; {remedy}")

    for start, part in zip(offsets(list(map(len, parts))).tolist(), parts, strict=False):
        if not _is_key_type(part.type):
            raise refused(start, part.type, "--id-column of an index takes strings or integers")
    ids = joined_ids(parts, declared)
    missing = null_mask(ids)
    if len(ids) and (pa.types.is_null(ids.type) or (missing is not None and missing.any())):
        raise refused(0 if missing is None else int(np.argmax(missing)), "null", "give each document an id")
    if has_views(ids.type):
        ids = ids.cast(large_type(ids.type))
    if ids.type == pa.uint64() and (great := np.flatnonzero(number_values(ids) > MAX_INT64)).size:
        raise refused(int(great[0]), ids[int(great[0])], f"integers of an index are at most {MAX_INT64}")
    return ids


def _is_key_type(kind: pa.DataType) -> bool:
    """Whether ids of a type are strings or integers, also in a dictionary or runs; null: of no documents."""
    types = pa.types
    if is_coded(kind):
        kind = kind.value_type
    return bool(types.is_integer(kind) or types.is_null(kind) or str(kind) in ("string", "large_string", "string_view"))
