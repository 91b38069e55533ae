"""Choosing a threshold, a banding and a sketch, on a sample of one's own texts.

python examples/choose.py TEXTS.parquet         # a column "text"
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow.parquet as pq

import gpulsh

SAMPLE = 2000


def main(path: str) -> None:
    texts = pq.read_table(path).column("text").slice(0, SAMPLE)

    # The threshold is a matter of taste: see what it drops, and read some of what lies just above it.
    for threshold in (0.9, 0.8, 0.7):
        result = gpulsh.deduplicate(texts, threshold=threshold)
        print(f"threshold {threshold}: {(~result.keep).sum():,} of {len(texts):,} dropped")

    # The banding decides which similarities are compared at all; what is compared is decided exactly.
    curve = gpulsh.choose_banding(num_perm=128, capture=(0.8, 0.995), reject=(0.3, 0.05))
    print(f"{curve.bands} bands of {curve.rows} rows compare {curve.probability(0.8):.1%} of the pairs at 0.8")

    # A sketch with as many values errs as much as theory says, here on pairs whose similarity is known.
    fingerprints = gpulsh.shingle(texts)
    pairs = gpulsh.candidate_pairs(gpulsh.Banding(bands=42, rows=3)(gpulsh.MinHash(num_perm=128)(fingerprints)))
    exact = gpulsh.jaccard(fingerprints, pairs)
    for sketch in (gpulsh.MinHash(num_perm=128), gpulsh.MinHash(num_perm=512), gpulsh.OnePermutation(num_perm=512)):
        estimated = sketch.estimate(sketch(fingerprints), pairs)
        error = np.sqrt(np.mean((estimated - exact) ** 2))
        print(f"{type(sketch).__name__}({sketch.num_perm}): off by {error:.4f} on {len(pairs):,} pairs")


if __name__ == "__main__":
    main(*sys.argv[1:])
