"""How the writer of a Parquet file compresses and encodes its columns: as the input does, at default levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulsh.io.compression.packing import Packing

if TYPE_CHECKING:
    import pyarrow.parquet as pq

CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}
CODECS |= {"LZ4": "lz4", "LZ4_RAW": "lz4"}


def writer_options(source: pq.ParquetFile, plain: set[str], asked: Packing | None) -> dict[str, object]:
    """Options of pyarrow.parquet.ParquetWriter for the rows of `source`, a pyarrow.parquet.ParquetFile.

    Columns in `plain` get neither a dictionary nor statistics: each would copy a large value.
    """
    names = [source.schema.column(place).path for place in range(len(source.schema))]
    groups = [source.metadata.row_group(number) for number in range(source.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    codecs = {chunk.path_in_schema: CODECS.get(chunk.compression, "zstd") for chunk in chunks}
    dictionaries = {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page} if chunks else set(names)
    return {
        "compression": asked.codec if asked else codecs or "zstd",
        "compression_level": asked.level if asked else None,
        "use_dictionary": sorted(dictionaries - plain),
        "write_statistics": [name for name in names if name not in plain] if plain else True,
    }
