"""How the writer of a Parquet file compresses and encodes its columns: as the input does, at default levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulsh.io.compression.packing import Packing

if TYPE_CHECKING:
    import pyarrow.parquet as pq

CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}
CODECS |= {"LZ4": "lz4", "LZ4_RAW": "lz4"}


def writer_options(source: pq.ParquetFile, asked: Packing | None) -> dict[str, object]:
    """Options of pyarrow.parquet.ParquetWriter for the rows of `source`, a pyarrow.parquet.ParquetFile."""
    groups = [source.metadata.row_group(number) for number in range(source.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    if not chunks:
        return {"compression": asked.codec if asked else "zstd", "compression_level": asked.level if asked else None}
    codecs = {chunk.path_in_schema: CODECS.get(chunk.compression, "zstd") for chunk in chunks}
    return {
        "compression": asked.codec if asked else codecs,
        "compression_level": asked.level if asked else None,
        "use_dictionary": sorted({chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}),
        "write_statistics": sorted({chunk.path_in_schema for chunk in chunks if chunk.is_stats_set}),
    }
