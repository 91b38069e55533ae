"""Hugging Face datasets: adds signatures by `map`, and removes near-duplicates from a whole dataset.

    python examples/hugging_face.py INPUT... OUT

INPUT are Parquet files with a column "text". OUT is a folder, which `datasets.load_from_disk` reads.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from datasets import Dataset

import gpulsh

SKETCH = gpulsh.MinHash(num_perm=128)


def signed(rows: dict[str, Sequence[str]]) -> dict[str, object]:
    """A column "signature" of some rows."""
    return {"signature": np.asarray(SKETCH.from_texts(rows["text"]))}


def main(inputs: list[str], out: str) -> None:
    dataset = Dataset.from_parquet(inputs)

    # Large batches, as each is a call; the column is kept in the dataset's cache, and shared where the dataset is.
    signatures = dataset.map(signed, batched=True, batch_size=10_000).with_format("numpy", dtype=np.uint32)["signature"]
    pairs = gpulsh.candidate_pairs(gpulsh.Banding(bands=21, rows=6)(gpulsh.Signatures(signatures[:])))
    print(f"{len(pairs):,} candidate pairs")

    # The decision is over all rows. `filter` gives a Dataset of the kept ones.
    kept = gpulsh.deduplicate(dataset, text_column="text", threshold=0.8).filter(dataset)
    print(f"{len(kept):,} of {len(dataset):,} kept")
    kept.save_to_disk(out)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/hugging_face.py INPUT... OUT")
    if Path(sys.argv[-1]).exists():
        sys.exit(f"{sys.argv[-1]} exists already; give another OUT")
    main(sys.argv[1:-1], sys.argv[-1])
