"""Reads a Parquet file, filters its rows and writes them, and nothing else: what files to files costs at least.

    python benchmarks/bare_parquet.py INPUT KEEP.npy OUTPUT CODEC[:LEVEL]

KEEP tells for each row whether it stays. All else is as pyarrow does it by default.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

given, kept, output, packing = sys.argv[1:]
codec, _, level = packing.partition(":")
table = pq.read_table(given).filter(pa.array(np.load(kept)))
pq.write_table(table, output, compression=codec, compression_level=int(level) if level else None)
