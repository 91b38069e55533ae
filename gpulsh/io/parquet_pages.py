"""What the footer of a Parquet file does not say: how large the values of a column chunk's dictionary may be.

Format: https://github.com/apache/parquet-format (PageHeader), in Thrift's compact protocol.
"""

from __future__ import annotations

from typing import Any

from gpulsh.io.format import File

HEAD = 48  # bytes that hold a page's header up to how many values its dictionary has
INTEGER, STRUCT = 5, 12  # types of fields
KIND, SIZE, DICTIONARY = 1, 2, 7  # fields of the header
VALUES = 1  # field of what it says of a dictionary
DICTIONARY_PAGE = 2
SHARE = 4  # a value is taken for at most so small a part of a dictionary of many values


def largest_value(file: File, chunk: Any) -> int:
    """About how many bytes the largest value of a chunk's dictionary has at most, 0 where it has no dictionary.

    `chunk` is a pyarrow.parquet.ColumnChunkMetaData. Where the page cannot be understood, it is the whole chunk's size.
    """
    if not any("DICTIONARY" in encoding for encoding in chunk.encodings):
        return 0
    # Some writers do not say where the dictionary is: before the data, which then begins with it.
    head = _read(file, chunk.dictionary_page_offset or chunk.data_page_offset)
    whole = int(chunk.total_uncompressed_size)
    try:
        fields = _fields(head)
    except IndexError:
        return whole
    if fields.get(KIND, DICTIONARY_PAGE) != DICTIONARY_PAGE:
        return 0
    size, values = min(fields.get(SIZE, whole), whole), fields.get(DICTIONARY, 1)
    return size if values < 2 * SHARE else max(size // SHARE, 1)


def _read(file: File, offset: int) -> bytes:
    if file.filesystem is not None:
        return bytes(file.filesystem.cat_file(file.path, start=offset, end=offset + HEAD))
    with open(file.path, "rb", buffering=0) as source:
        source.seek(offset)
        return source.read(HEAD)


def _fields(head: bytes) -> dict[int, int]:
    """The numbers of a page's header up to DICTIONARY, which stands for how many values that is of."""
    fields: dict[int, int] = {}
    number = place = 0
    while number < DICTIONARY:
        step, kind = head[place] >> 4, head[place] & 15
        if not step:
            raise IndexError
        number, place = number + step, place + 1
        if kind == STRUCT and number == DICTIONARY and head[place] == VALUES << 4 | INTEGER:
            fields[DICTIONARY], place = _integer(head, place + 1)
        elif kind == INTEGER:
            fields[number], place = _integer(head, place)
        else:
            break
    return fields


def _integer(data: bytes, place: int) -> tuple[int, int]:
    """A number of variable length with its sign in the lowest bit, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if byte < 0x80:
            break
    return value >> 1 ^ -(value & 1), place
