"""Reads a Parquet file, filters its rows and writes them, and nothing else: the least cost of files to files.

    python benchmarks/bare_parquet.py INPUT KEEP.parquet OUTPUT CODEC[:LEVEL]

The column `keep` of KEEP marks the rows that stay. `read_table` and NumPy arrays would load pandas, if it is installed,
and that takes longer than some of the work. Everything else has pyarrow's defaults.
"""

from __future__ import annotations

import sys

import pyarrow.parquet as pq

given, kept, output, packing = sys.argv[1:]
codec, _, level = packing.partition(":")
table = pq.ParquetFile(given).read().filter(pq.ParquetFile(kept).read()["keep"])
pq.write_table(table, output, compression=codec, compression_level=int(level) if level else None)
