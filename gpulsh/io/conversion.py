"""Kept rows in the format that `--format` names: Parquet whose bytes follow from the rows alone, or JSON lines.

In JSON lines, dates, times and decimals are strings as Arrow shows them, a duration is its number, and a map is a list
of [key, value]. An interval is [months, days, nanoseconds]. A UUID has its usual form; other binary is base64, but the
text of documents is text. NaN and infinity, which JSON lacks, are null.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.arrays import Numbers
from gpulsh.errors import InputError, ParameterError
from gpulsh.io.arrow.buffers import byte_size, has_few_codes, number_values, plain_values
from gpulsh.io.arrow.ids import (
    cast_to,
    fits_parquet,
    has_known_years,
    parquet_type,
    refuse_unsupported,
    unsupported_column,
)
from gpulsh.io.arrow.rows import arrow_rows, is_text
from gpulsh.io.arrow.texts import Cutter, as_strings
from gpulsh.io.columns import Columns
from gpulsh.io.compression import Compression
from gpulsh.io.file import File, reading
from gpulsh.io.format import Mask, WriteOptions, with_added
from gpulsh.io.formats.endings import compression_of, ending_of, format_of
from gpulsh.io.formats.json_text import PART_BYTES, json_string
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.parquet import GROUP_BYTES, GROUP_ROWS, Parquet
from gpulsh.io.formats.text import PlainText
from gpulsh.io.formats.warc import Warc
from gpulsh.io.limits import COPIES, Limit, too_costly
from gpulsh.io.output_codec import NewFile, OutputCodec, compressed_writer
from gpulsh.memory_limit import check_room
from gpulsh.ragged import counts_by_row, offsets, row_ranges

FormatName = Literal["parquet", "jsonl"]
STREAMS: dict[str, Compression] = {"none": "", "gzip": "gz", "zstd": "zst"}  # the compression of JSON lines, by codec
FIRST_ROW = np.zeros(1, np.int64)
JSON_EXTENSIONS = ("arrow.uuid", "arrow.bool8")  # extension types whose values in Python are JSON's, too
VALUE_BYTES = 8  # the least of a value in Python
VALUE_COPIES = 6  # of a value, in Python, which may take four bytes a character, and in JSON


def refuse_stream_codec(codec: OutputCodec) -> None:
    """ParameterError if JSON lines cannot be packed so."""
    if codec.name not in STREAMS:
        raise ParameterError(f"compression is '{codec}', and format 'jsonl'; give one of {', '.join(STREAMS)}")


def with_format_names(files: Sequence[File], name: FormatName, codec: OutputCodec | None) -> list[File]:
    """The files with their places in `data/` in the format `name`; InputError if two would have the same."""
    found: list[File] = []
    places: dict[str, File] = {}
    for file in files:
        if not _has_format(file, name, codec):
            stem = file.relative.removesuffix(ending_of(file.relative))
            packed = _compression(file, codec) if name == "jsonl" else ""
            file = replace(file, relative=f"{stem}.{name}.{packed}".rstrip("."))
        found.append(file)
        other = places.setdefault(file.relative, file)
        if other is not file:
            raise InputError(
                f"{file.name}: would become data/{file.relative} in format {name!r}, as {other.name} does; rename one"
            )
    return found


def write_kept(
    name: FormatName | None, columns: Columns, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]
) -> None:
    """`Format.write_kept` in the format `name`. Without kept rows, no file of another format is written."""
    kind, codec = format_of(file), how.get("codec")
    if name is None or _has_format(file, name, codec):
        kind.write_kept(file, keep, target, **how)
        return
    added = how.get("added")
    if not keep.any():
        return
    if name == "parquet":
        write_row_groups(file, with_added(_kept_batches(file, keep, how), added), target, codec)
    else:
        with compressed_writer(target, _compression(file, codec), codec.level if codec else None) as out:
            if isinstance(kind, JsonLines):
                kind.write_lines(file, keep, out, how)
            else:
                batches = with_added(_kept_batches(file, keep, how), added)
                for content in json_lines(file, batches, columns, how.get("limit")):
                    out.write(content)


def _kept_batches(file: File, keep: Mask, how: WriteOptions) -> Iterator[pa.RecordBatch]:
    kind, cuts = format_of(file), how.get("cuts")
    if cuts is not None and isinstance(kind, (PlainText, Warc)):
        cuts = replace(cuts, columns=Columns("text"))  # other files may have another text column
    batches = kind.kept_batches(file, keep, **how)
    return batches if cuts is None else map(Cutter(file, keep, cuts), batches)


def _has_format(file: File, name: FormatName, codec: OutputCodec | None) -> bool:
    """Whether the file has the format, packed so, already."""
    kind = format_of(file)
    if name == "parquet":
        return isinstance(kind, Parquet)
    return isinstance(kind, JsonLines) and not kind.may_be_array and kind.compression == _compression(file, codec)


def _compression(file: File, codec: OutputCodec | None) -> Compression:
    """The compression of JSON lines: `codec`, by default as in the file."""
    if codec is not None:
        return STREAMS[codec.name]
    return compression_of(file.plain_path)


def write_row_groups(file: File, batches: Iterator[pa.RecordBatch], target: NewFile, codec: OutputCodec | None) -> None:
    """Write the rows of a file; none makes no file. A row group ends with the batch that fills it."""
    first = next(batches, None)
    if first is None:
        return
    refuse_unsupported(file, first.schema)
    schema = pa.schema([field.with_type(parquet_type(field.type)) for field in first.schema], first.schema.metadata)
    options = {
        "compression": codec.name if codec else "zstd",
        "compression_level": codec.level if codec else None,
        # Statistics of a large text would be copies of it.
        "write_statistics": [
            field.name for field in first.schema if not (is_text(field.type) or field.type.num_fields)
        ],
    }
    with target() as sink, pq.ParquetWriter(sink, schema, version="2.6", **options) as out:
        batches = chain([first], batches)
        del first
        for table in _row_groups(file, batches, schema):
            out.write_table(table, row_group_size=len(table))
            del table  # before the next one is read


def _row_groups(file: File, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size, coded = 0, [place for place, kind in enumerate(schema.types) if has_few_codes(kind)]
    for batch in batches:
        columns = [_as_parquet(file, *each) for each in zip(batch.schema, batch.columns, strict=True)]
        # Arrow cannot read a row group with more values than codes.
        if held and any(columns[place].dictionary != held[-1].column(place).dictionary for place in coded):
            yield pa.Table.from_batches(held, schema)
            held, size = [], 0
        held.append(pa.record_batch(columns, schema=schema))
        size += byte_size(held[-1])
        del batch, columns  # before the next one is read
        if size >= GROUP_BYTES or sum(map(len, held)) >= GROUP_ROWS:
            yield pa.Table.from_batches(held, schema)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)


def _as_parquet(file: File, field: pa.Field, column: pa.Array) -> pa.Array:
    """The column in a type of Parquet; null is no value of a dictionary, which Arrow cannot write."""
    if not fits_parquet(column):
        raise unsupported_column(file, field, "has values beyond the range of Parquet, as")
    kind = parquet_type(field.type)
    found = cast_to(column, kind)
    if pa.types.is_dictionary(kind) and found.dictionary.null_count:
        found = plain_values(found).dictionary_encode().cast(kind)
    return found


def json_lines(file: File, batches: Iterable[pa.RecordBatch], columns: Columns, limit: Limit | None) -> Iterator[bytes]:
    """Each row as an object of its columns on a line, many rows at a time, a large row in pieces."""
    texts = {place[0] for place in columns.texts if len(place) == 1}
    for batch in batches:
        names = batch.schema.names
        if twice := [name for name, often in Counter(names).items() if often > 1]:
            raise InputError(f"{file.name}: has {names.count(twice[0])} columns {twice[0]!r}; rename all but one")
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if not has_known_years(column):
                raise unsupported_column(file, field, "has dates beyond the year 32765, as", "JSON", "parquet")
        for part in _parts(batch.columns):
            with reading(file):
                if len(part[0]) == 1:
                    yield from _large_object(file, names, part, texts, limit)
                    yield b"\n"
                else:
                    yield _small_lines(names, part, texts)
            del part
        del batch


def _parts(columns: Sequence[pa.Array]) -> Iterator[list[pa.Array]]:
    """The columns cut into about PART_BYTES of rows. A large row is alone."""
    most = max(1, PART_BYTES // VALUE_BYTES)
    for first in range(0, len(columns[0]), most):
        some = [column.slice(first, most) for column in columns]
        for start, stop in row_ranges(offsets(sum(map(_row_sizes, some))), PART_BYTES):
            yield [column.slice(start, stop - start) for column in some]


def _row_sizes(column: pa.Array) -> Numbers:
    """int64 [rows]: about the bytes of each value."""
    if is_text(column.type):
        return arrow_rows(column).lengths() + VALUE_BYTES
    if pa.types.is_struct(column.type):
        return sum(map(_row_sizes, _fields(column)), np.full(len(column), VALUE_BYTES))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        offset = number_values(column.offsets).astype(np.int64)
        values = column.values.slice(offset[0], offset[-1] - offset[0])
        sizes: Numbers = counts_by_row(_row_sizes(values), offset - offset[0]) + VALUE_BYTES
        return sizes
    return np.full(len(column), max(VALUE_BYTES, byte_size(column) // max(len(column), 1)))


def _fields(column: pa.Array) -> list[pa.Array]:
    return [column.field(place) for place in range(column.type.num_fields)]  # Arrow aborts at the flatten() of a union


def _small_lines(names: Sequence[str], part: Sequence[pa.Array], texts: set[str]) -> bytes:
    columns = [_json_values(column, name in texts) for name, column in zip(names, part, strict=True)]
    return b"".join(_json(dict(zip(names, values, strict=True))) + b"\n" for values in zip(*columns, strict=True))


def _large_object(
    file: File, names: Sequence[str], columns: Sequence[pa.Array], texts: Collection[str], limit: Limit | None
) -> Iterator[bytes]:
    yield b"{"
    before = b""
    for name, column in zip(names, columns, strict=True):
        yield before + _json(name) + b":"
        before = b","
        yield from _large_value(file, name, column, name in texts, limit)
    yield b"}"


def _large_value(file: File, name: str, value: pa.Array, is_document: bool, limit: Limit | None) -> Iterator[bytes]:
    """A value in pieces. Whole, it takes many times its bytes, and without memory orjson ends the process."""
    kind = value.type
    if value.null_count or (is_text(kind) and arrow_rows(value).nulls()):
        yield b"null"
    elif _is_string(value, is_document):
        yield from json_string(arrow_rows(value).pieces(FIRST_ROW)[0])
    elif is_text(kind) and "binary" in str(kind):
        yield from json_string(base64.b64encode(arrow_rows(value).pieces(FIRST_ROW)[0]))
    elif pa.types.is_struct(kind):
        yield from _large_object(file, [field.name for field in kind], _fields(value), (), limit)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield b"["
        before = b""
        for (part,) in _parts([value.flatten()]):
            yield before
            before = b","
            if len(part) == 1:
                yield from _large_value(file, name, part, False, limit)
            else:
                yield _json(_json_values(part, False))[1:-1]
        yield b"]"
    else:
        need = VALUE_COPIES * byte_size(value)
        if limit is not None and need > COPIES * limit.document:
            raise too_costly(file, f"a value of column {name!r} as JSON", need, COPIES * limit.document, limit)
        (found,) = _json_values(value, is_document)
        if need > PART_BYTES:
            check_room(file.name, need)
        yield _json(found)


def _json(value: object) -> bytes:
    import orjson

    return orjson.dumps(value, default=_json_default)


def _is_string(column: pa.Array, is_document: bool) -> bool:
    return is_document or (is_text(column.type) and "string" in str(column.type))


def _json_values(column: pa.Array, is_document: bool) -> list[object]:
    if _is_string(column, is_document):
        found = as_strings(column)
    else:
        column = cast_to(column, parquet_type(column.type))
        found = cast_to(column, _json_type(column.type))
    return found.to_pylist()  # type: ignore[no-any-return]


def _json_type(kind: pa.DataType) -> pa.DataType:
    """A `parquet_type`, with strings and numbers for values that Python or JSON lacks."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return kind if kind.extension_name in JSON_EXTENSIONS else _json_type(kind.storage_type)
    if types.is_dictionary(kind):
        return _json_type(kind.value_type)
    if types.is_duration(kind):
        return pa.int64()
    if types.is_temporal(kind) or types.is_decimal(kind):
        return kind if types.is_interval(kind) else pa.string()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_json_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_json_type(kind.key_type), _json_type(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(_json_type(kind.value_type))
    return kind


def _json_default(value: object) -> object:
    """A JSON value for a value that orjson does not know."""
    if isinstance(value, tuple):  # an interval
        return list(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
