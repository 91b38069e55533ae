"""What decoding a row group takes: too much is refused, and batches are as long as the worst of their rows allow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pyarrow.parquet as pq

from gpulsh.backends.recent import Recent
from gpulsh.io.file import File
from gpulsh.io.format import BLOCK_BYTES
from gpulsh.io.formats.parquet.pages import Pages, Read, largest_pages, largest_value, longest_value
from gpulsh.io.formats.parquet.pages import reader as page_reader
from gpulsh.io.limits import Limit, too_costly

MAX_BATCH_ROWS = 1 << 13
DECODED_BYTES = 3 << 19  # about what is decoded at once: larger batches are slower, for each is memory from the system
WORST_BYTES = 32 << 20  # of a batch in which every row were the largest value of a dictionary
CHUNK_ROWS = 1024  # that are written together, where they are no more than BLOCK_BYTES
CHUNK_BYTES = 64 << 20  # of rows that are written together, whatever their dictionaries hold
SMALL_PAGE = 1 << 16  # bytes of pages that are not looked at
LARGE_PAGE = 16 << 20  # bytes of a page whose values are written without dictionary and extremes
LEAST_ALLOWED = 24 << 20  # bytes that a page of each column may always take
VALUE_BYTES = 56  # that a value takes while it is decoded: itself, its levels, and a copy of each
BATCHES = 2  # that are held at once: Arrow lets go of one when the next has been decoded
PAGE_COPIES = 6  # of a page, with the values that are decoded of it, that are held at once at the most
MOST_LONGEST = 1 << 12

# What unpacking a dictionary tells, for each reading of its row group asks.
_longest: Recent[tuple[object, ...], int] = Recent(MOST_LONGEST)


def check_pages(
    file: File, source: pq.ParquetFile, number: int, limit: Limit | None, names: Sequence[str] | None = None
) -> dict[str, Pages]:
    """The largest pages of a row group's columns, or of `names`: none larger than a document may be."""
    group = source.metadata.row_group(number)
    found: dict[str, Pages] = {}
    allowed = 0 if limit is None else max(limit.document * 21 // 8, LEAST_ALLOWED)
    held = passing = 0
    schema, several = source.schema, names is None and source.num_row_groups > 1
    # Names, of which a file may have one twice, and with points in them.
    dictionaries = {field.name for field in source.schema_arrow if "dictionary<" in str(field.type)}
    with page_reader(file) as read:
        for place in range(group.num_columns):
            chunk = group.column(place)
            name = chunk.path_in_schema
            if names is not None and name.partition(".")[0] not in names and name not in names:
                continue
            if file.filesystem is not None and chunk.total_uncompressed_size <= allowed // PAGE_COPIES:
                continue  # each header would be a request
            # A row of lists may have any number of values; what each has is told by no header, but how many all have.
            row = chunk.num_values * VALUE_BYTES // max(group.num_rows, 1)
            if limit is not None and row > allowed:
                raise too_costly(file, f"row group {number}: a row of column {name!r}", row, allowed, limit)
            found[name] = pages = largest_pages(read, chunk, SMALL_PAGE)
            as_dictionary = not dictionaries.isdisjoint(accumulate(name.split("."), "{}.{}".format))
            mean = chunk.num_values // max(group.num_rows, 1) if schema.column(place).max_repetition_level else None
            stays, goes = _costs(pages, mean, min(BATCHES, group.num_rows), as_dictionary=as_dictionary)
            if several:  # the writer keeps the last page until the next row group
                goes += pages.value + pages.packed
            if limit is not None and stays + goes > allowed:
                raise too_costly(file, f"row group {number}: a page of column {name!r}", stays + goes, allowed, limit)
            held, passing = held + stays, max(passing, goes)
    if limit is not None and held + passing > allowed:
        told = f"row group {number}: a page of each of its columns"
        raise too_costly(file, told, held + passing, allowed, limit)
    return found


def in_turn(found: dict[str, Pages]) -> bool:
    """Whether columns are decoded one after another, by this thread, whose freed memory can be given back."""
    return any(pages.large > LARGE_PAGE for pages in found.values())


def _costs(pages: Pages, values: int | None, batches: int, *, as_dictionary: bool) -> tuple[int, int]:
    """Bytes that a column takes while it is decoded row by row, and those that only one column takes at a time.

    `values` is how many a row has in the mean where it is a list, otherwise None.
    """
    value, dictionary, copies = pages.value, pages.dictionary, 2  # one in the page, and one of the decoder
    if values is not None:  # a row may have one large value of the dictionary many times
        value = max(value, pages.entry * values)
    if as_dictionary:  # whose values are gathered, and copied for each batch
        copies += 2 * (dictionary > 0)
        dictionary = value = max(dictionary, value)
    # What lists hold is copied when there is no room for the next of it.
    return pages.largest + copies * dictionary + batches * value, pages.packed + (0 if values is None else value)


def fitting_rows(
    file: File, source: pq.ParquetFile, number: int, names: Sequence[str] | None = None
) -> tuple[int, int]:
    """How many rows of these columns, or all, are decoded at once, and written at once: few large ones, or that may be.

    A value that a dictionary holds once may stand in all rows, and a row group of kilobytes hold gigabytes. How large
    it is the footer does not say. The dictionary's page is not smaller; where that leaves too few rows, it is unpacked.
    """
    group = source.metadata.row_group(number)
    chunks = [chunk for chunk in column_chunks(group) if names is None or chunk.path_in_schema in names]
    size = max(1, sum(chunk.total_uncompressed_size for chunk in chunks))
    decoded = min(group.num_rows * DECODED_BYTES // size, MAX_BATCH_ROWS)
    written = min(group.num_rows * BLOCK_BYTES // size, CHUNK_ROWS)
    most = min(max(decoded, written), group.num_rows)
    largest = [0]
    if most * size > WORST_BYTES:
        chunks = [chunk for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"]
        with page_reader(file) as read:
            largest = [largest_value(read, chunk) for chunk in chunks]
            if most * sum(largest) > WORST_BYTES:
                for place, chunk in enumerate(chunks):
                    if most * len(chunks) * largest[place] > WORST_BYTES:
                        largest[place] = _longest_value(file, read, chunk)
    row = max(1, sum(largest))
    return max(1, min(decoded, WORST_BYTES // row)), max(1, min(written, CHUNK_BYTES // row))


def _longest_value(file: File, read: Read, chunk: pq.ColumnChunkMetaData) -> int:
    identity = file.identity()
    if identity is None:
        return longest_value(read, chunk)
    return _longest.of((*identity, chunk.data_page_offset), lambda: longest_value(read, chunk))


def column_chunks(group: pq.RowGroupMetaData) -> list[pq.ColumnChunkMetaData]:
    """What the footer says of each column of a row group."""
    return list(map(group.column, range(group.num_columns)))
