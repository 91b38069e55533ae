"""Choose a threshold, a banding and a sketch, on a sample of your own texts.

    python examples/choose.py INPUT... OUT

INPUT are Parquet files with a column "text". OUT is a Parquet file: the number of documents that each threshold drops.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gpulsh

SAMPLE = 2000


def main(inputs: list[str], out: str) -> None:
    texts = pq.read_table(inputs).column("text").slice(0, SAMPLE)

    # You choose the threshold: see what it drops, and read some pairs just above it.
    rows = []
    for threshold in (0.9, 0.8, 0.7):
        dropped = int((~gpulsh.deduplicate(texts, threshold=threshold).keep).sum())
        rows.append({"threshold": threshold, "dropped": dropped})
        print(f"threshold {threshold}: {dropped:,} of {len(texts):,} dropped")
    pq.write_table(pa.Table.from_pylist(rows), out)

    # The banding decides which pairs are compared. Every comparison is exact.
    curve = gpulsh.choose_banding(num_perm=128, capture=(0.8, 0.995), reject=(0.3, 0.05))
    print(f"{curve.bands} bands of {curve.rows} rows compare {curve.probability(0.8):.1%} of the pairs at 0.8")

    # The error of a sketch, measured on pairs whose exact similarity is known.
    fingerprints = gpulsh.shingle(texts)
    pairs = gpulsh.candidate_pairs(gpulsh.Banding(bands=42, rows=3)(gpulsh.MinHash(num_perm=128)(fingerprints)))
    exact = gpulsh.jaccard(fingerprints, pairs)
    for sketch in (gpulsh.MinHash(num_perm=128), gpulsh.MinHash(num_perm=512), gpulsh.OnePermutation(num_perm=512)):
        estimated = sketch.estimate(sketch(fingerprints), pairs)
        error = np.sqrt(np.mean((estimated - exact) ** 2))
        print(f"{type(sketch).__name__}({sketch.num_perm}): off by {error:.4f} on {len(pairs):,} pairs")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/choose.py INPUT... OUT")
    if Path(sys.argv[-1]).exists():
        sys.exit(f"{sys.argv[-1]} exists already; give another OUT")
    main(sys.argv[1:-1], sys.argv[-1])
