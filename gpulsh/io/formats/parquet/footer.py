"""What of a Parquet file's footer Arrow must not be asked about before it was looked at here.

Asked for a column chunk's metadata, Arrow's Python binding ends the process where its C++ throws: where a histogram of
levels has not the length of the column's levels, where a column is encrypted or its codec is none, or where a row group
has more columns than the schema. A footer is a few bytes that anyone can write, so those are looked for first. All else
is skipped over. No statistics of pyarrow's can take its place: to ask for them is what ends the process.

Format: https://github.com/apache/parquet-format (FileMetaData), in Thrift's compact protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulsh.backends.recent import Recent
from gpulsh.errors import DamagedInputError
from gpulsh.io.file import File
from gpulsh.io.formats.parquet.thrift import (
    I32,
    I64,
    LIST,
    STRUCT,
    Fields,
    NoThriftError,
    check_structs,
    fields,
    structs,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
ROW_GROUPS, COLUMNS, METADATA, ENCRYPTED, SIZES = 4, 1, 3, 8, 16  # fields: of the file, a row group, chunks, metadata
BYTES, REPETITION, DEFINITION = 1, 2, 3  # fields of the statistics of sizes
KNOWN = {1: range(8), 4: range(8)}  # fields of the metadata: types of values, and codecs
MOST_KNOWN = 1 << 14  # files

_known: Recent[tuple[object, ...], str] = Recent(MOST_KNOWN)  # what is wrong with a footer, empty where nothing is


def check_footer(file: File, source: pq.ParquetFile) -> None:
    """A DamagedInputError where the footer of `source`, a pyarrow.parquet.ParquetFile, is not to be trusted."""
    metadata = source.metadata
    stamp = tuple(file.stamp()) if file.filesystem is None else ()
    key = (id(file.filesystem), file.path, stamp, metadata.serialized_size, metadata.num_rows, metadata.num_row_groups)
    if told := _known.of(key, lambda: _wrong(file, source)):
        raise DamagedInputError(f"{file.name}: cannot be read: its footer is broken: {told}")


def _wrong(file: File, source: pq.ParquetFile) -> str:
    metadata = source.metadata
    count, rows = metadata.num_columns, 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_columns != count:
            return f"row group {number} has {group.num_columns} columns and the schema {count}"
        if group.num_rows < 0:
            return f"row group {number} has {group.num_rows} rows"
        rows += group.num_rows
    if rows != metadata.num_rows:  # Arrow would give other rows for all groups together than for each
        return f"its row groups have {rows} rows and the file {metadata.num_rows}"
    columns = [source.schema.column(number) for number in range(count)]
    levels = [
        (column.max_repetition_level + 1, column.max_definition_level + 1, column.physical_type == "BYTE_ARRAY")
        for column in columns
    ]
    try:
        footer = _footer(file)
        for number, kind, place in fields(footer, 0):
            if number == ROW_GROUPS:
                for group, found in enumerate(structs(footer, place, kind)):
                    _check_group(found, group, levels)
    except (IndexError, RecursionError):
        return "it ends too early"
    except NoThriftError as error:
        return str(error)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place, column in enumerate(columns):
            # Arrow goes by the place; what is looked up here of a column, by its name.
            if (name := group.column(place).path_in_schema) != column.path:
                return f"column {place} of row group {number} is {name!r} there and {column.path!r} in the schema"
    return ""


def _footer(file: File) -> bytes:
    with file.open() as source:
        end = source.seek(0, 2)
        source.seek(max(end - 8, 0))
        size, magic = int.from_bytes(source.read(4), "little"), source.read(4)
        if magic != MAGIC or size > end - 8:
            raise NoThriftError("it is encrypted" if magic == b"PARE" else "it is not where the file says")
        source.seek(end - 8 - size)
        return source.read(size)


def _check_group(found: Fields, group: int, levels: list[tuple[int, int, bool]]) -> None:
    _, chunks = found.get(COLUMNS, (LIST, []))
    for column, chunk in enumerate(check_structs(chunks)):
        if column >= len(levels):
            raise NoThriftError(f"row group {group} has more columns than the schema")
        if ENCRYPTED in chunk:
            raise NoThriftError(f"column {column} of row group {group} is encrypted")
        kind, metadata = chunk.get(METADATA, (STRUCT, {}))
        if kind == STRUCT:
            _check_sizes(metadata, f"column {column} of row group {group}", levels[column])


def _check_sizes(metadata: Fields, told: str, levels: tuple[int, int, bool]) -> None:
    repetition, definition, has_bytes = levels
    for number, known in KNOWN.items():
        kind, value = metadata.get(number, (0, 0))
        if kind == I32 and value not in known:
            raise NoThriftError(f"{told} has a type or a compression that there is not")
    kind, sizes = metadata.get(SIZES, (STRUCT, {}))
    for field, (of, value) in sizes.items() if kind == STRUCT else ():
        wanted = {REPETITION: repetition, DEFINITION: definition}.get(field)
        if wanted is not None and of == LIST and value not in (0, wanted):
            raise NoThriftError(f"{told} has levels of another depth than the schema says")
        if field == BYTES and of == I64 and not has_bytes:
            raise NoThriftError(f"{told} tells bytes of values that have none")
