"""What the footer of a Parquet file does not say, or not truly: how large pages are, and the values of dictionaries.

pyarrow does not say it: what it has of a column chunk, statistics too, is what the footer says of all pages together.

Format: https://github.com/apache/parquet-format (PageHeader), in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from gpulsh.io.format import File

if TYPE_CHECKING:
    import pyarrow.parquet as pq

STRUCT = 12  # type of a field
KIND, SIZE, DICTIONARY = 1, 2, 7  # fields of the header
VALUES = 1  # field of what it says of a dictionary
DICTIONARY_PAGE = 2
HEADS = 256  # bytes in which the header of a page mostly ends; with statistics it may have many more
MOST_HEAD = 16 << 20  # as Arrow has it
DATA, DATA_2, PACKED = 5, 8, 3  # fields: what it says of data of both versions, and its bytes as they stand in the file
LEVEL_BYTES = 5, 6  # fields of what it says of data of version 2: bytes of levels of definition, of repetition
NUMBERS = range(4, 7)  # types of fields: integers of all sizes but one byte
PLAIN, BINARY = {1: 0, 2: 0, 3: 1, 7: 8}, 8  # bytes of values of other types; strings
WORST_RATIO = {"UNCOMPRESSED": 1, "SNAPPY": 32, "LZ4": 256, "LZ4_RAW": 256, "GZIP": 1040}  # of content to its bytes
VALUE_COST = 16  # bytes that a value of a dictionary takes beside its own
MIXED_PAGE = 4 << 20  # bytes of a page beyond which nearly all of it may be one value
SHARE = 4  # a value is taken for at most so small a part of a dictionary of many values


def largest_value(file: File, chunk: pq.ColumnChunkMetaData) -> int:
    """About how many bytes the largest value of a chunk's dictionary has at most, 0 where it has no dictionary.

    Where the page cannot be understood, it is the whole chunk's size.
    """
    if not any("DICTIONARY" in encoding for encoding in chunk.encodings):
        return 0
    whole = int(chunk.total_uncompressed_size)
    try:
        # Some writers do not say where the dictionary is: before the data, which then begins with it.
        head, _ = _parsed(_read(file, _begin(chunk)))
    except (IndexError, ValueError):
        return whole
    return _value_of(min(head.size, whole), head.values) if head.is_dictionary else 0


def _value_of(dictionary: int, values: int) -> int:
    """About how many bytes the largest value of a dictionary has at most."""
    return dictionary if values < 2 * SHARE else max(dictionary // SHARE, 1)


def _read(file: File, offset: int) -> bytes:
    if file.filesystem is not None:
        return bytes(file.filesystem.cat_file(file.path, start=offset, end=offset + HEADS))
    with open(file.path, "rb", buffering=0) as source:
        source.seek(offset)
        return source.read(HEADS)


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


class Pages(NamedTuple):
    """What a column chunk takes while it is read: the largest of its pages, and its dictionary."""

    largest: int  # bytes of a page once it is decompressed
    dictionary: int  # bytes of a dictionary, with what its values take beside them
    packed: int = 0  # bytes that one of them takes beside itself while it is decompressed
    value: int = 0  # bytes of the largest value, about: of small pages their mean, a share of a dictionary of many
    entry: int = 0  # bytes of a value of the dictionary in the mean

    @property
    def large(self) -> int:
        """Bytes of the larger of page and dictionary."""
        return max(self.largest, self.dictionary)

    def larger(self, other: Pages) -> Pages:
        """Return the larger of both, number by number."""
        return Pages(*map(max, self, other))


def largest_pages(read: Callable[[int, int], bytes], chunk: pq.ColumnChunkMetaData, small: int) -> Pages:
    """What the headers of a chunk's pages say; at most `small` bytes where they cannot be larger, and are not read.

    `read` is given a place in the file and how many bytes there. A ValueError where they are no headers.
    """
    packed = int(chunk.total_compressed_size)
    if packed * WORST_RATIO.get(chunk.compression, 1 << 20) <= small:
        return Pages(small, 0)
    place = _begin(chunk)
    end, left = place + packed, int(chunk.num_values)
    largest = dictionary = compressed = value = entry = 0
    while left > 0 and place < end:
        head, size = _header(read, place, end)
        if min(head.size, head.packed, head.values) < 0:
            raise ValueError("a page says that it has less than nothing")
        place += size + head.packed
        if chunk.compression != "UNCOMPRESSED":
            compressed = max(compressed, head.packed)
        if head.is_dictionary:
            dictionary, entry = max(dictionary, head.size + VALUE_COST * head.values), max(entry, _mean(head))
            value = max(value, _mean(head) if head.size <= MIXED_PAGE else _value_of(head.size, head.values))
        else:
            largest, left = max(largest, head.size), left - head.values
            value = max(value, _mean(head) if head.size <= MIXED_PAGE else head.size)
    return Pages(largest, dictionary, compressed, value, entry)


@contextmanager
def reader(file: File) -> Iterator[Callable[[int, int], bytes]]:
    """Bytes of a file at a place."""
    with file.open() if file.filesystem is not None else open(file.path, "rb", buffering=0) as source:

        def read(place: int, size: int) -> bytes:
            source.seek(place)
            return source.read(size)

        yield read


class PackedPage(NamedTuple):
    """Where the compressed content of a page lies, and how many bytes it has as it stands there and as it is."""

    place: int
    packed: int
    size: int
    values: int
    version: int  # of the format of its header, 1 or 2


def packed_pages(read: Callable[[int, int], bytes], chunk: pq.ColumnChunkMetaData) -> Iterator[PackedPage]:
    """The pages of a chunk, its dictionary first, up to the first that cannot be understood; `read` as above."""
    place, left = _begin(chunk), int(chunk.num_values)
    end = place + int(chunk.total_compressed_size)
    while left > 0 and place < end:
        try:
            head, size = _header(read, place, end)
        except ValueError:
            return
        if min(head.size, head.packed, head.values, head.levels, head.packed - head.levels) < 0:
            return
        begin = place + size + head.levels
        yield PackedPage(begin, head.packed - head.levels, head.size - head.levels, head.values, head.version)
        place, left = place + size + head.packed, left - (0 if head.is_dictionary else head.values)


def _begin(chunk: pq.ColumnChunkMetaData) -> int:
    """Where the first page of a chunk is."""
    place = int(chunk.data_page_offset)
    if chunk.dictionary_page_offset and 0 < chunk.dictionary_page_offset < place:
        place = int(chunk.dictionary_page_offset)
    return place


class _Head(NamedTuple):
    size: int
    packed: int
    values: int
    is_dictionary: bool
    levels: int  # bytes before its content that are never compressed
    version: int


def _mean(head: _Head) -> int:
    """Bytes of a value of a page."""
    return head.size // max(head.values, 1)


def _header(read: Callable[[int, int], bytes], place: int, end: int) -> tuple[_Head, int]:
    """The header of the page at a place, and how many bytes it has."""
    size = HEADS
    while True:
        head = read(place, min(size, end - place))
        try:
            return _parsed(head)
        except IndexError:
            if len(head) < size or size >= MOST_HEAD:
                raise ValueError("the header of a page cannot be read") from None
            size *= 16


def _parsed(head: bytes) -> tuple[_Head, int]:
    (numbers, structs), place = _struct(head, 0, 0)
    if not {SIZE, PACKED, KIND} <= numbers.keys():
        raise ValueError("the header of a page lacks a field")
    told = [structs[of].numbers for of in (DATA, DATA_2, DICTIONARY) if of in structs]
    values = next((found[VALUES] for found in told if VALUES in found), 0)
    levels = sum(structs[DATA_2].numbers.get(of, 0) for of in LEVEL_BYTES) if DATA_2 in structs else 0
    version = 2 if DATA_2 in structs else 1
    return _Head(numbers[SIZE], numbers[PACKED], values, numbers[KIND] == DICTIONARY_PAGE, levels, version), place


class _Struct(NamedTuple):
    """Its integers and its structs, by the number of the field."""

    numbers: dict[int, int]
    structs: dict[int, _Struct]


def _struct(data: bytes, place: int, depth: int) -> tuple[_Struct, int]:
    """The struct at a place, and the place behind it. An IndexError where `data` ends before."""
    if depth > 8:
        raise ValueError("the header of a page is nested too deeply")
    found = _Struct({}, {})
    number = 0
    while kind := data[place] & 15:
        step, place = data[place] >> 4, place + 1
        if step:
            number += step
        else:
            number, place = _integer(data, place)
        if kind in NUMBERS:
            found.numbers[number], place = _integer(data, place)
        elif kind == STRUCT:
            found.structs[number], place = _struct(data, place, depth + 1)
        elif kind == BINARY:
            length, place = _length(data, place)
            place += length
        elif kind in PLAIN:
            place += PLAIN[kind]
        else:
            raise ValueError("the header of a page has a field of a type that is not known")
    return found, place + 1


def _length(data: bytes, place: int) -> tuple[int, int]:
    """A number without a sign, and the place behind it."""
    value, place = _integer(data, place)
    return value * 2 if value >= 0 else -2 * value - 1, place
