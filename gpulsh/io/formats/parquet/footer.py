"""What of a Parquet file's footer Arrow must not be asked about before it was looked at here.

Asked for a column chunk's metadata, Arrow's Python binding ends the process where its C++ throws: where a histogram of
levels has not the length of the column's levels, where a column is encrypted or its codec is none, or where a row group
has more columns than the schema. A footer is a few bytes that anyone can write, so those are looked for first. All else
is skipped over. No statistics of pyarrow's can take its place: to ask for them is what ends the process.

Format: https://github.com/apache/parquet-format (FileMetaData), in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpulsh.errors import DamagedInputError
from gpulsh.io.format import File

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
FALSE, I16, I32, I64, BINARY, LIST, STRUCT = 2, 4, 5, 6, 8, 9, 12  # types of fields
ROW_GROUPS, COLUMNS, METADATA, ENCRYPTED, SIZES = 4, 1, 3, 8, 16  # fields: of the file, a row group, chunks, metadata
BYTES, REPETITION, DEFINITION = 1, 2, 3  # fields of the statistics of sizes
KNOWN = {1: range(8), 4: range(8)}  # fields of the metadata: types of values, and codecs
MOST_KNOWN = 1 << 14  # files

_known: dict[tuple[object, ...], str] = {}  # what is wrong with a footer, empty where nothing is


def check_footer(file: File, source: pq.ParquetFile) -> None:
    """A DamagedInputError where the footer of `source`, a pyarrow.parquet.ParquetFile, is not to be trusted."""
    metadata = source.metadata
    stamp = tuple(file.stamp()) if file.filesystem is None else ()
    key = (id(file.filesystem), file.path, stamp, metadata.serialized_size, metadata.num_rows, metadata.num_row_groups)
    if key not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[key] = _wrong(file, source)
    if told := _known[key]:
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
        for number, kind, place in _fields(footer, 0):
            if number == ROW_GROUPS:
                for group, at in enumerate(_structs(footer, place, kind)):
                    _check_group(footer, at, group, levels)
    except (IndexError, RecursionError):
        return "it ends too early"
    except _WrongError as error:
        return str(error)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place, column in enumerate(columns):
            # Arrow goes by the place; what is looked up here of a column, by its name.
            if (name := group.column(place).path_in_schema) != column.path:
                return f"column {place} of row group {number} is {name!r} there and {column.path!r} in the schema"
    return ""


class _WrongError(Exception):
    pass


def _footer(file: File) -> bytes:
    with file.open() as source:
        end = source.seek(0, 2)
        source.seek(max(end - 8, 0))
        size, magic = int.from_bytes(source.read(4), "little"), source.read(4)
        if magic != MAGIC or size > end - 8:
            raise _WrongError("it is encrypted" if magic == b"PARE" else "it is not where the file says")
        source.seek(end - 8 - size)
        return source.read(size)


def _check_group(data: bytes, at: int, group: int, levels: list[tuple[int, int, bool]]) -> None:
    for number, kind, place in _fields(data, at):
        if number != COLUMNS:
            continue
        for column, chunk in enumerate(_structs(data, place, kind)):
            if column >= len(levels):
                raise _WrongError(f"row group {group} has more columns than the schema")
            for field, of, inside in _fields(data, chunk):
                if field == ENCRYPTED:
                    raise _WrongError(f"column {column} of row group {group} is encrypted")
                if field == METADATA and of == STRUCT:
                    _check_sizes(data, inside, f"column {column} of row group {group}", levels[column])


def _check_sizes(data: bytes, at: int, told: str, levels: tuple[int, int, bool]) -> None:
    repetition, definition, has_bytes = levels
    for number, kind, place in _fields(data, at):
        if number in KNOWN and kind == I32 and _signed(data, place) not in KNOWN[number]:
            raise _WrongError(f"{told} has a type or a compression that there is not")
        if number != SIZES or kind != STRUCT:
            continue
        for field, of, inside in _fields(data, place):
            wanted = {REPETITION: repetition, DEFINITION: definition}.get(field)
            if wanted is not None and of == LIST and _list(data, inside)[1] not in (0, wanted):
                raise _WrongError(f"{told} has levels of another depth than the schema says")
            if field == BYTES and of == I64 and not has_bytes:
                raise _WrongError(f"{told} tells bytes of values that have none")


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Number, type and place of each field of the struct at `at`."""
    number = 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = _signed(data, at), _skip_integer(data, at)
        yield number, kind, at
        if I16 <= kind <= I64:
            while data[at] > 127:
                at += 1
            at += 1
        else:
            at = SKIP[kind](data, at)


def _structs(data: bytes, at: int, kind: int) -> Iterator[int]:
    """The place of each struct of a list of them."""
    of, count, at = _list(data, at) if kind == LIST else (0, 0, at)
    if of != STRUCT and count:
        raise _WrongError("a list of it holds something else than it should")
    for _ in range(count):
        yield at
        at = _skip_struct(data, at)


def _list(data: bytes, at: int) -> tuple[int, int, int]:
    """What a list holds, how many, and where they begin."""
    head, at = data[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _integer(data, at)
    return head & 15, count, at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
    return value | byte << shift, at + 1


def _signed(data: bytes, at: int) -> int:
    value, _ = _integer(data, at)
    return value >> 1 ^ -(value & 1)


def _skip_nothing(data: bytes, at: int) -> int:
    return at


def _skip_byte(data: bytes, at: int) -> int:
    return at + 1


def _skip_integer(data: bytes, at: int) -> int:
    while data[at] > 127:
        at += 1
    return at + 1


def _skip_double(data: bytes, at: int) -> int:
    return at + 8


def _skip_binary(data: bytes, at: int) -> int:
    size = data[at]
    if size < 128:
        return at + 1 + size
    size, at = _integer(data, at)
    return at + size


def _skip_list(data: bytes, at: int) -> int:
    of, count, at = _list(data, at)
    if of <= FALSE:  # truth values take a byte in a list, and none in a struct
        return at + count
    skip = SKIP[of]
    for _ in range(count):
        at = skip(data, at)
    return at


def _skip_struct(data: bytes, at: int) -> int:
    while head := data[at]:
        at += 1
        kind = head & 15
        if head < 16:
            at = _skip_integer(data, at)
        if I16 <= kind <= I64:  # most are: a call for each would take twice as long
            while data[at] > 127:
                at += 1
            at += 1
        elif kind == BINARY and data[at] < 128:
            at += 1 + data[at]
        else:
            at = SKIP[kind](data, at)
    return at + 1


def _skip_unknown(data: bytes, at: int) -> int:
    raise _WrongError("it has a field of a type that there is not")


Skip = Callable[[bytes, int], int]
SKIP: list[Skip] = [_skip_unknown, _skip_nothing, _skip_nothing, _skip_byte, *[_skip_integer] * 3, _skip_double]
SKIP += [_skip_binary, _skip_list, _skip_list, _skip_unknown, _skip_struct, *[_skip_unknown] * 3]
