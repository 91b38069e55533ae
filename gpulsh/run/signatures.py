"""Signatures and band digests of files, as a table that SQL engines read: a column a value, a column a band."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.account.stages import OF_INDEX
from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import NO_DIGEST, Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.io.arrow.buffers import strings, to_arrow
from gpulsh.io.arrow.ids import one_type
from gpulsh.io.files.file_texts import FileTexts, Partition, PartitionFacts
from gpulsh.io.format import Columns
from gpulsh.io.normalize import normalized
from gpulsh.method import Method
from gpulsh.run.display.progress import open_progress
from gpulsh.run.indexing import open_inputs
from gpulsh.run.output.folders import refuse_overlap, refuse_url
from gpulsh.store.durable import durable_file, writing

PARTITION_BYTES = 64 << 20  # of text, whose rows are a row group


def sign_files(
    inputs: Sequence[str],
    output: str | os.PathLike[str],
    *,
    text_column: str = "text",
    lines: bool = False,
    id_column: str | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    progress: bool = False,
    **parameters: Any,
) -> int:
    """Write a row for each document of files to the Parquet file `output`; returns how many there are.

    Columns: `document`, counted over all files; `file`, `row`, and `id` where `id_column` names one; `v0`, `v1`, ...,
    the signature's values; `band0`, `band1`, ..., the band digests. Values and digests of an empty document are null,
    so that it equals nothing. `parameters` are those of the method that `deduplicate` takes. Raises ParameterError,
    InputError and OutputError; then `output` is as it was.
    """
    refuse_url(os.fspath(output))
    path, method = Path(output), Method.chosen(**parameters)
    if path.suffix != ".parquet":
        raise ParameterError(f"output is {str(path)!r}; give a file that ends with .parquet")
    ops = select_backend(backend, threads=threads)
    texts = open_inputs(inputs, Columns(text=text_column, id=id_column), lines, ops)
    refuse_overlap(os.fspath(path), inputs, texts.files)
    shown, unit = open_progress(progress), OF_INDEX["index"].unit
    with writing(path), shown.stage("sign", texts.check(), unit), durable_file(path) as file, texts.kept():
        writer, documents = None, 0
        for partition in texts.partitions(PARTITION_BYTES):
            table = _table(texts, partition, documents, method, ops)
            writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd", version="2.6")
            writer.write_table(table)
            documents += len(table)
            shown.advance(sum(piece.part.size if piece.part else 0 for piece in partition.pieces))
        if writer is not None:
            writer.close()
    return documents


def _table(texts: FileTexts, partition: Partition, first: int, method: Method, ops: Backend) -> pa.Table:
    facts = PartitionFacts()
    signatures: list[Array] = [np.empty((0, method.family.num_perm), method.family.value_type)]
    digests: list[Array] = [np.empty((0, method.banding.bands), np.uint64)]
    with ops.here():
        for batch in texts.read(partition.pieces, ops.sizes().batch, facts):
            found = ops.text_signatures(normalized(batch, method.folding.form), method.reading, method.family)
            signatures.append(ops.asnumpy(found))
            digests.append(ops.asnumpy(ops.band_digests(found, method.banding)))
    texts.add(facts)
    values, bands = np.concatenate(signatures), np.concatenate(digests)
    none = (bands == np.uint64(NO_DIGEST)).all(axis=1)
    files, rows = _places(partition, facts)
    columns: dict[str, pa.Array] = {
        "document": to_arrow(first + np.arange(len(values))),
        "file": strings([file.name for file in texts.files]).take(to_arrow(files)),
        "row": to_arrow(rows),
    }
    if texts.columns.id is not None:
        ids = texts.values(texts.columns.id, first + np.arange(len(values)))
        columns["id"] = one_type(ids, texts.kinds(texts.columns.id))
    columns |= {f"v{i}": pa.array(np.ascontiguousarray(column), mask=none) for i, column in enumerate(values.T)}
    columns |= {f"band{i}": pa.array(np.ascontiguousarray(column), mask=none) for i, column in enumerate(bands.T)}
    return pa.table(columns)


def _places(partition: Partition, facts: PartitionFacts) -> tuple[Numbers, Numbers]:
    """Of each document the number of its file, and its row there."""
    files = [np.full(count, number) for number, count in facts.rows.items()]
    starts = [partition.pieces[0].start] + [0] * (len(facts.rows) - 1)
    rows = [start + np.arange(count) for start, count in zip(starts, facts.rows.values(), strict=False)]
    none = np.empty(0, np.int64)
    return np.concatenate([none, *files]), np.concatenate([none, *rows])
