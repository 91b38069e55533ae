"""The options of a Parquet file's writer with which its rows take no more bytes than in the file they are of.

Codec, dictionaries and encodings of each column stand in the footer, the size of pages in their headers. Levels do not
(`gpulsh.io.compression.packing`). They are looked for in the largest column of each codec, in the middle row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from gpulsh.io.compression.packing import FEED_BYTES, LEVELS, SAMPLE_BYTES, Packing, Sample, beginning, cheapest_level
from gpulsh.io.file import File
from gpulsh.io.formats.parquet.pages import Page, Pages, Read, content_of, pages_of, reader

if TYPE_CHECKING:
    import pyarrow.parquet as pq

CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}
CODECS |= {"LZ4": "lz4", "LZ4_RAW": "lz4"}
STREAMED = ("zstd", "gzip")  # of which the beginning of a page can be unpacked
MOST_WHOLE = 8 << 20  # bytes of a page that is unpacked as a whole
USUAL_PAGE, MOST_PAGE = 1 << 20, 48 << 20  # bytes: those of a usual writer; of a page and of a dictionary at most
RUN_VALUES = 1024  # that Arrow's writer takes at once
SCALAR = {  # encodings that are kept of columns of these types
    "DELTA_BINARY_PACKED": ("INT32", "INT64"),
    "DELTA_LENGTH_BYTE_ARRAY": ("BYTE_ARRAY",),
    "DELTA_BYTE_ARRAY": ("BYTE_ARRAY",),
    "BYTE_STREAM_SPLIT": ("FLOAT", "DOUBLE"),
}


def writer_options(
    file: File, source: pq.ParquetFile, pages: Mapping[str, Pages], plain: set[str], asked: Packing | None
) -> dict[str, object]:
    """Options of pyarrow.parquet.ParquetWriter for the rows of `source`, a pyarrow.parquet.ParquetFile.

    `pages` tell of the largest of each column. Of columns in `plain` no dictionary is tried and no extremes are kept:
    each would be a copy of a large value.
    """
    chunks = _chunks(source)
    names = [source.schema.column(place).path for place in range(len(source.schema))]
    codecs = {name: CODECS.get(of[0].compression, "zstd") if of else "zstd" for name, of in chunks.items()}
    if asked is not None:
        codecs = dict.fromkeys(codecs, asked.codec)
        levels = {} if asked.level is None else dict.fromkeys(codecs, asked.level)
    else:
        levels = _levels(file, source, codecs)
    dictionaries = [name for name in names if name not in plain and (not chunks[name] or _has_dictionary(chunks[name]))]
    encodings = {name: found for name in names if name not in dictionaries and (found := _encoding(chunks[name]))}
    encodings = {name: found for name, found in encodings.items() if not _is_decimal(source, name)}
    page, version = _usual_pages(file, source)
    dictionary = max((of.dictionary for of in pages.values()), default=0)
    return {
        "compression": codecs or "zstd",
        "compression_level": levels or None,
        "use_dictionary": dictionaries,
        "column_encoding": encodings or None,
        "write_statistics": [name for name in names if name not in plain] if plain else True,
        "data_page_size": min(max(page, USUAL_PAGE), MOST_PAGE),
        "data_page_version": f"{version}.0",
        "dictionary_pagesize_limit": min(max(dictionary, USUAL_PAGE), MOST_PAGE),
    }


def _usual_pages(file: File, source: pq.ParquetFile) -> tuple[int, int]:
    """Bytes to which the median page of the largest column of the middle row group is filled, and the version of its
    format. 0 where pages have few values: they are large, and while one is written no other is to be held beside it.
    """
    if not source.num_row_groups or not len(source.schema):
        return 0, 1
    group = source.metadata.row_group(source.num_row_groups // 2)
    largest = max(map(group.column, range(group.num_columns)), key=lambda chunk: chunk.total_uncompressed_size)
    with reader(file) as read:
        pages = sorted(_readable(read, largest), key=lambda page: page.size)
    if not pages:
        return 0, 1
    usual = pages[len(pages) // 2]
    # Arrow ends a page behind the run of values with which it reaches its size: of one run, it does so by itself.
    size = usual.size - usual.size * RUN_VALUES // usual.values if usual.values > RUN_VALUES else 0
    return size, max(page.version for page in pages)


def _readable(read: Read, chunk: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """The pages of a chunk up to the first that has no header."""
    with suppress(ValueError):
        yield from pages_of(read, chunk)


def _chunks(source: pq.ParquetFile) -> dict[str, list[pq.ColumnChunkMetaData]]:
    """The chunks of each column."""
    paths = [source.schema.column(place).path for place in range(len(source.schema))]
    found: dict[str, list[pq.ColumnChunkMetaData]] = {path: [] for path in paths}
    for number in range(source.num_row_groups):
        group = source.metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            found[chunk.path_in_schema].append(chunk)
    return found


def _has_dictionary(chunks: Iterable[pq.ColumnChunkMetaData]) -> bool:
    return any("DICTIONARY" in encoding for chunk in chunks for encoding in chunk.encodings)


def _encoding(chunks: Iterable[pq.ColumnChunkMetaData]) -> str | None:
    found = (each for chunk in chunks for each in chunk.encodings if chunk.physical_type in SCALAR.get(each, ()))
    return next(found, None)


def _is_decimal(source: pq.ParquetFile, name: str) -> bool:
    """Whether the column is of decimals, which may be written as another type than they were read as."""
    schema = source.schema
    return any(
        schema.column(place).path == name and schema.column(place).logical_type.type == "DECIMAL"
        for place in range(len(schema))
    )


def _levels(file: File, source: pq.ParquetFile, codecs: Mapping[str, str]) -> dict[str, int]:
    """The level of each column whose codec has some; none where no sample tells."""
    if not source.num_row_groups:
        return {}
    group = source.metadata.row_group(source.num_row_groups // 2)
    chunks = [group.column(place) for place in range(group.num_columns)]
    found: dict[str, int] = {}
    with reader(file) as read:
        for codec in sorted({codec for codec in codecs.values() if LEVELS[codec]}):
            largest = max(
                (chunk for chunk in chunks if codecs[chunk.path_in_schema] == codec),
                key=lambda chunk: chunk.total_compressed_size,
                default=None,
            )
            if largest is None:
                continue
            level = cheapest_level(codec, list(_samples(codec, read, largest)), _packer(codec))
            if level is not None:
                found |= {name: level for name, of in codecs.items() if of == codec}
    return found


def _samples(codec: str, read: Read, chunk: pq.ColumnChunkMetaData) -> Iterator[Sample]:
    """Yield samples of the first pages of a chunk, about SAMPLE_BYTES of content."""
    left = SAMPLE_BYTES
    for page in _readable(read, chunk):
        if codec in STREAMED:
            stop = page.place + page.packed
            pieces = (read(at, min(FEED_BYTES, stop - at)) for at in range(page.place, stop, FEED_BYTES))
            sample = beginning(codec, pieces, left)
        else:
            content = content_of(read, chunk, page) if max(page.packed, page.size) <= MOST_WHOLE else None
            sample = None if content is None else Sample(content, page.packed)
        if sample is not None:
            yield sample
            left -= len(sample.content)
        if left <= 0 or sample is None:
            return


def _packer(codec: str) -> Callable[[bytes, int], int]:
    name = "lz4_raw" if codec == "lz4" else codec

    def pack(content: bytes, level: int) -> int:
        return len(pa.Codec(name, compression_level=level).compress(content))

    return pack
