"""Record batches as a Parquet file whose bytes follow from them alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.errors import InputError
from gpulsh.io.arrow.ids import in_parquet, of_type, parquet_type, values_in_parquet
from gpulsh.io.arrow.rows import is_text
from gpulsh.io.file import File
from gpulsh.io.formats.row_groups import GROUP_BYTES, GROUP_ROWS
from gpulsh.io.packing import Packing


def write_row_groups(file: File, batches: Iterator[pa.RecordBatch], target: str, packing: Packing | None) -> None:
    """Write the rows of a file; none makes no file. A row group ends with the batch that fills it."""
    first = next(batches, None)
    if first is None:
        return
    for field in first.schema:
        if not in_parquet(field.type):
            raise _refused(file, field, "is")
    schema = pa.schema([field.with_type(parquet_type(field.type)) for field in first.schema], first.schema.metadata)
    options = {
        "compression": packing.codec if packing else "zstd",
        "compression_level": packing.level if packing else None,
        # Those of a large text would be several copies of it.
        "write_statistics": [
            field.name for field in first.schema if not (is_text(field.type) or field.type.num_fields)
        ],
    }
    left = True
    with pq.ParquetWriter(target, schema, version="2.6", **options) as out:
        batches = chain([first], batches)
        del first
        while left:
            left, held, size = False, [], 0
            for batch in batches:
                for field, column in zip(batch.schema, batch.columns, strict=True):
                    if not values_in_parquet(column):
                        raise _refused(file, field, "has values beyond those of Parquet, as")
                held.append(batch if batch.schema == schema else _of_schema(batch, schema))
                size += batch.nbytes
                del batch  # before the next one is read
                if size >= GROUP_BYTES or sum(map(len, held)) >= GROUP_ROWS:
                    left = True
                    break
            if table := pa.Table.from_batches(held, out.schema):
                out.write_table(table, row_group_size=len(table))


def _of_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else of_type(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


def _refused(file: File, field: pa.Field, why: str) -> InputError:
    return InputError(
        f"{file.name}: column {field.name!r} {why} {field.type}, which Parquet cannot hold; leave --format out, or"
        " give it as jsonl"
    )
