"""What the footer of a Parquet file does not say, or not truly: how large pages are, and the values of dictionaries.

pyarrow does not say it: what it has of a column chunk, statistics too, is what the footer says of all pages together.

Format: https://github.com/apache/parquet-format (PageHeader), in Thrift's compact protocol.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from gpulsh.io.file import File
from gpulsh.io.formats.parquet.thrift import INTEGERS, STRUCT, Fields, struct_at

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Read: TypeAlias = Callable[[int, int], bytes]  # of a place in a file, so many bytes

KIND, SIZE, PACKED = 1, 2, 3  # fields of the header
DATA, DICTIONARY, DATA_2 = 5, 7, 8  # the same, which say more of a page of one kind
VALUES = 1  # field of what they say
LEVEL_BYTES = 5, 6  # fields of what it says of data of version 2: bytes of levels of definition, of repetition
DICTIONARY_PAGE = 2
HEADS = 256  # bytes in which the header of a page mostly ends; with statistics it may have many more
MOST_HEAD = 16 << 20  # as Arrow has it
READ_BYTES = 1 << 20  # of a chunk that are read at once
REMOTE_BYTES = 1 << 16  # of a file that is not on this machine are asked for at once
WORST_RATIO = {"UNCOMPRESSED": 1, "SNAPPY": 32, "LZ4": 256, "LZ4_RAW": 256, "GZIP": 1040}  # of content to its bytes
LENGTH = Struct("<I")  # of a value in the page of a dictionary, before it
VALUE_COST = 16  # bytes that a value of a dictionary takes beside its own
MIXED_PAGE = 4 << 20  # bytes of a page beyond which nearly all of it may be one value
SHARE = 4  # a value is taken for at most so small a part of a dictionary of many values


@contextmanager
def reader(file: File) -> Iterator[Read]:
    """Bytes of a file at a place."""
    if file.filesystem is None:
        with open(file.path, "rb", buffering=0) as local:
            yield lambda place, size: os.pread(local.fileno(), size, place)
        return
    with file.filesystem.open(file.path, "rb", block_size=REMOTE_BYTES) as remote:

        def read(place: int, size: int) -> bytes:
            remote.seek(place)
            return bytes(remote.read(size))

        yield read


class Page(NamedTuple):
    """Where the content of a page lies, without the levels before it that are never compressed."""

    place: int
    packed: int  # bytes as it stands there
    size: int  # bytes as it is
    values: int
    levels: int  # bytes
    is_dictionary: bool


def _bounds(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where a chunk begins in its file, and where it ends."""
    place = int(chunk.data_page_offset)
    if chunk.dictionary_page_offset and 0 < chunk.dictionary_page_offset < place:
        place = int(chunk.dictionary_page_offset)  # some writers leave it out: the data then begins with it
    return place, place + int(chunk.total_compressed_size)


def stored_bytes(read: Read, chunk: pq.ColumnChunkMetaData) -> Iterator[bytes]:
    """A chunk as it stands in its file."""
    start, end = _bounds(chunk)
    return (read(place, min(READ_BYTES, end - place)) for place in range(start, end, READ_BYTES))


def pages_of(read: Read, chunk: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """The pages of a chunk, its dictionary first; a ValueError at the first that has no header."""
    (place, end), left = _bounds(chunk), int(chunk.num_values)
    while left > 0 and place < end:
        page = _page(read, place, end)
        if min(page.size, page.packed, page.values, page.levels) < 0:
            raise ValueError("a page says that it has less than nothing")
        yield page
        place, left = page.place + page.packed, left - (0 if page.is_dictionary else page.values)


def content_of(read: Read, chunk: pq.ColumnChunkMetaData, page: Page) -> bytes | None:
    """The content of a page of a chunk; None where it cannot be unpacked."""
    codec = chunk.compression.lower()
    if codec == "uncompressed":
        return read(page.place, page.packed)
    try:
        unpacked: bytes = pa.Codec("lz4_raw" if codec == "lz4" else codec).decompress(
            read(page.place, page.packed), page.size, asbytes=True
        )
    except (pa.ArrowException, OSError):
        return None
    return unpacked


def largest_value(read: Read, chunk: pq.ColumnChunkMetaData) -> int:
    """About how many bytes the largest value of a chunk's dictionary has at most, 0 where it has no dictionary.

    Where the page cannot be understood, it is the whole chunk's size.
    """
    if not any("DICTIONARY" in encoding for encoding in chunk.encodings):
        return 0
    whole = int(chunk.total_uncompressed_size)
    try:
        page = next(pages_of(read, chunk), None)
    except ValueError:
        return whole
    return _value_of(min(page.size, whole), page.values) if page is not None and page.is_dictionary else 0


def longest_value(read: Read, chunk: pq.ColumnChunkMetaData) -> int:
    """The same exactly, from the values themselves, where their page can be unpacked."""
    page = next(pages_of(read, chunk), None)
    content = content_of(read, chunk, page) if page is not None and page.is_dictionary else None
    if content is None:
        return largest_value(read, chunk)
    at, longest, last = 0, 0, len(content) - LENGTH.size
    while at <= last:  # of many short values, so that each line counts
        (size,) = LENGTH.unpack_from(content, at)
        if size > longest:
            longest = size
        at += LENGTH.size + size
    return min(longest, len(content))


def _value_of(dictionary: int, values: int) -> int:
    """About how many bytes the largest value of a dictionary has at most."""
    return dictionary if values < 2 * SHARE else max(dictionary // SHARE, 1)


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


def largest_pages(read: Read, chunk: pq.ColumnChunkMetaData, small: int) -> Pages:
    """What the headers of a chunk's pages say; at most `small` bytes where they cannot be larger, and are not read.

    A ValueError where they are no headers.
    """
    if int(chunk.total_compressed_size) * WORST_RATIO.get(chunk.compression, 1 << 20) <= small:
        return Pages(small, 0)
    found = Pages(0, 0)
    for page in pages_of(read, chunk):
        size = page.size + page.levels
        mean = size // max(page.values, 1)
        packed = 0 if chunk.compression == "UNCOMPRESSED" else page.packed + page.levels
        if page.is_dictionary:
            value = mean if size <= MIXED_PAGE else _value_of(size, page.values)
            found = found.larger(Pages(0, size + VALUE_COST * page.values, packed, value, mean))
        else:
            found = found.larger(Pages(size, 0, packed, mean if size <= MIXED_PAGE else size))
    return found


def _page(read: Read, place: int, end: int) -> Page:
    """The page whose header is at a place."""
    asked = HEADS
    while True:
        head = read(place, min(asked, end - place))
        try:
            return _parsed(head, place)
        except (IndexError, RecursionError) as error:
            if isinstance(error, RecursionError) or len(head) < asked or asked >= MOST_HEAD:
                raise ValueError("the header of a page cannot be read") from None
            asked *= 16


def _parsed(head: bytes, place: int) -> Page:
    header, end = struct_at(head, 0)
    numbers = _numbers(header)
    told = {number: _numbers(header[number][1]) for number in (DATA, DICTIONARY, DATA_2) if _is_struct(header, number)}
    if not {SIZE, PACKED, KIND} <= numbers.keys():
        raise ValueError("the header of a page lacks a field")
    levels = sum(told[DATA_2].get(of, 0) for of in LEVEL_BYTES) if DATA_2 in told else 0
    return Page(
        place + end + levels,
        numbers[PACKED] - levels,
        numbers[SIZE] - levels,
        next((found[VALUES] for found in told.values() if VALUES in found), 0),
        levels,
        numbers[KIND] == DICTIONARY_PAGE,
    )


def _numbers(struct: Fields) -> dict[int, int]:
    return {number: value for number, (kind, value) in struct.items() if kind in INTEGERS}


def _is_struct(struct: Fields, number: int) -> bool:
    return number in struct and struct[number][0] == STRUCT
