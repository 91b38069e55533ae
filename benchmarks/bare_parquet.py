"""Reads a Parquet file, filters its rows and writes them, and nothing else: what files to files costs at least.

    python benchmarks/bare_parquet.py INPUT KEEP.parquet OUTPUT CODEC[:LEVEL]

KEEP has a column `keep`, which tells for each row whether it stays. `read_table`, and an array of NumPy's, would load
pandas where that is installed, which takes longer than some of the work. All else is as pyarrow does it by default.
"""

from __future__ import annotations

import sys

import pyarrow.parquet as pq

given, kept, output, packing = sys.argv[1:]
codec, _, level = packing.partition(":")
table = pq.ParquetFile(given).read().filter(pq.ParquetFile(kept).read()["keep"])
pq.write_table(table, output, compression=codec, compression_level=int(level) if level else None)
