"""Signatures and band digests of files, as a table that SQL engines read: a column per value, a column per band."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import NO_DIGEST, Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import InputError, ParameterError
from gpulsh.io.arrow.buffers import string_array, to_arrow
from gpulsh.io.arrow.ids import fits_parquet, joined_ids
from gpulsh.io.columns import Columns, text_named
from gpulsh.io.files.file_texts import FileTexts, Partition, PartitionFacts
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.formats.endings import format_of
from gpulsh.io.rows import normalized
from gpulsh.lsh.signing import words_and_digests
from gpulsh.method import Method, given_parameters
from gpulsh.params import BitSketch, Sketch
from gpulsh.ragged import bundles, distinct, run_bounds
from gpulsh.run.index.jobs import open_inputs
from gpulsh.run.output.paths import refuse_overlap, refuse_present, refuse_url, with_mark
from gpulsh.run.progress import open_progress
from gpulsh.secret import chosen_secret, evidence_keys
from gpulsh.sketch.named import sketches_by_name
from gpulsh.stats.stages import INDEX_STAGES, Progress, with_progress
from gpulsh.store.durable import durable_file, writing

PARTITION_BYTES = 64 << 20  # of text, whose rows are a row group, or several
ROWS_AT_ONCE = 1 << 17  # rows of a row group, or a few more: a file may be one partition
CODED = ["file", "id"]  # columns with dictionaries, which for hashes take much time, and room


def sign_files(
    inputs: Sequence[str],
    output: str | os.PathLike[str],
    *,
    text_column: str | Sequence[str] = "text",
    id_column: str | None = None,
    overwrite: bool = False,
    sketch: Sketch | BitSketch | str | None = None,
    num_perm: int | None = None,
    seed: int | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    progress: bool = False,
    **parameters: Any,
) -> int:
    """Write a row for each document of files to the Parquet file `output`; returns how many there are.

    Columns: `document`, counted over all files; `file`, `row`, and `id` where `id_column` names one; `v0`, `v1`, ...,
    the signature's values; `band0`, `band1`, ..., the band digests. Ids are text if no file declares their type and
    the first ROWS_AT_ONCE documents have none. The values of SimHash are words of 64 bits; its digests are of tables,
    and signatures within `distance` agree in one of these. Values and digests of an empty document are null, so that
    it equals nothing. `parameters` are those that `deduplicate` takes for its method, except containment, which has no
    signatures.
    Raises ParameterError, InputError and OutputError; then `output` is as it was.
    """
    refuse_url(os.fspath(output))
    path, read_options = Path(output), ReadOptions.taken_from(parameters)
    chosen, _ = sketches_by_name(sketch, None, num_perm, seed)
    method = Method.choose(**given_parameters(sketch=chosen, num_perm=num_perm, seed=seed, **parameters))
    if path.suffix != ".parquet":
        raise ParameterError(f"output is {str(path)!r}; give a file that ends with .parquet")
    if method.measure == "containment":
        raise ParameterError("measure is 'containment', which has no signatures; leave it out")
    ops = select_backend(backend, threads=threads)
    texts = open_inputs(inputs, Columns(text=text_named(text_column), id=id_column), read_options, ops)
    refuse_overlap(os.fspath(path), inputs, texts.files)
    refuse_present(path, overwrite=overwrite)
    shown, unit = open_progress(progress), INDEX_STAGES["index"].unit
    with (
        writing(path),
        shown.stage("sign", texts.check(), unit),
        durable_file(path) as file,
        texts.unchanged(),
        ExitStack() as open_writer,
    ):
        writer: pq.ParquetWriter | None = None
        documents = 0
        ids = _Ids(texts)
        declared = [] if id_column is None else texts.column_types(id_column)
        for partition in texts.partitions(PARTITION_BYTES):
            for signatures, digests in _sign_partition(texts, partition, method, ops, shown):
                if writer is not None and not len(signatures):  # only a first table may be empty
                    continue
                written = None if writer is None or id_column is None else writer.schema.field("id").type
                table = _make_table(texts, documents, signatures, digests, ids, declared, written)
                table = table.replace_schema_metadata(with_mark(table.schema).metadata)
                if writer is None:
                    how: Any = {"use_dictionary": CODED, "compression": "zstd", "version": "2.6"}
                    writer = pq.ParquetWriter(file, table.schema, **how)
                    open_writer.enter_context(writer)
                writer.write_table(table)
                documents += len(table)
    return documents


def _sign_partition(
    texts: FileTexts, partition: Partition, method: Method, ops: Backend, shown: Progress
) -> Iterator[tuple[Array, Array]]:
    """The signatures and digests of a partition, ROWS_AT_ONCE or a few more at a time; `texts` then has their rows."""
    facts, near = PartitionFacts(), method.near
    unused = evidence_keys(chosen_secret(None))  # exact hashes come with the digests of bits
    width, kind = (method.family.num_perm, method.family.value_type) if near is None else (near.bits // 64, np.uint64)
    none = np.empty((0, width), kind), np.empty((0, method.banding.bands), np.uint64)

    def signed() -> Iterator[tuple[Array, Array]]:
        batches = texts.read(partition.pieces, ops.sizes().batch, facts)
        for text in with_progress(batches, shown, lambda batch: normalized(batch, method.folding.form)):
            if near is None:
                found = ops.text_signatures(text, method.backend_shingling, method.family)
                banded = ops.band_digests(found, method.banding)
            else:
                found, of_words = words_and_digests(text, method.backend_shingling, near, unused, ops)
                banded = of_words.digests
            yield ops.asnumpy(found), ops.asnumpy(banded)

    with ops.use_device():
        for some in chain(bundles(signed(), ROWS_AT_ONCE, lambda one: len(one[0])), [[none]]):
            texts.add(facts)
            facts.rows = {}
            signatures, digests = map(np.concatenate, zip(*some, strict=True))
            yield signatures, digests


class _Ids:
    """The ids of documents in order; a file without parts is read once."""

    def __init__(self, texts: FileTexts) -> None:
        self._texts, self._counts = texts, deque[int]()
        self._runs: Iterator[pa.Array] = iter(())

    def take(self, files: Numbers, rows: Numbers) -> list[pa.Array]:
        """The ids of the next documents, whose files and rows are given: one array a file."""
        found, column = [], self._texts.columns.id
        for start, stop in run_bounds(files):
            if column is not None and rows[start] == 0:
                file = self._texts.files[files[start]]
                self._runs = format_of(file).value_runs(file, column, iter(self._counts.popleft, None))
            self._counts.append(stop - start)
            found.append(next(self._runs))
        return found


def _make_table(
    texts: FileTexts,
    first: int,
    signatures: Array,
    digests: Array,
    ids: _Ids,
    declared: Sequence[pa.DataType],
    written: pa.DataType | None,
) -> pa.Table:
    """The rows of documents from number `first` on. Ids have the type `written` of earlier rows.

    In the first rows, they have room for the `declared` types; they are text if these rows have none.
    """
    positions = first + np.arange(len(signatures))
    files, rows = texts.locate(positions)
    none = (digests == np.uint64(NO_DIGEST)).all(axis=1)
    columns: dict[str, pa.Array] = {
        "document": to_arrow(positions),
        "file": string_array([file.name for file in texts.files]).take(to_arrow(files)),
        "row": to_arrow(rows),
    }
    if texts.columns.id is not None:
        parts, known = ids.take(files, rows), [*declared, *([] if written is None else [written])]
        joined = joined_ids(parts, known)
        if written is not None and joined.type != written:
            by_file = zip(distinct(files), parts, strict=True)
            file, other = next(each for each in by_file if joined_ids([each[1].slice(0, 0)], known).type != written)
            name, column = texts.files[file].name, texts.columns.id
            raise InputError(
                f"{name}: column {column!r} is {other.type}, and {written} in earlier rows; make it one type"
            )
        columns["id"] = joined.cast(pa.string()) if pa.types.is_null(joined.type) else joined
        if not fits_parquet(columns["id"]):
            raise InputError(f"column {texts.columns.id!r} has a date that Parquet cannot hold; leave out --id-column")
    columns |= {f"v{i}": pa.array(np.ascontiguousarray(column), mask=none) for i, column in enumerate(signatures.T)}
    columns |= {f"band{i}": pa.array(np.ascontiguousarray(column), mask=none) for i, column in enumerate(digests.T)}
    return pa.table(columns)
