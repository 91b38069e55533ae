"""Hugging Face datasets: a column of signatures by `map`, and near-duplicates dropped of the whole dataset.

python examples/hugging_face.py TEXTS.parquet OUT      # a column "text"
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from datasets import Dataset

import gpulsh

SKETCH = gpulsh.MinHash(num_perm=128)


def signed(rows: dict[str, Sequence[str]]) -> dict[str, object]:
    """A column "signature" of some rows."""
    return {"signature": np.asarray(SKETCH.from_texts(rows["text"]))}


def main(path: str, out: str) -> None:
    dataset = Dataset.from_parquet(path)

    # Large batches, as each is a call; the column is kept in the dataset's cache, and shared where the dataset is.
    signatures = dataset.map(signed, batched=True, batch_size=10_000).with_format("numpy", dtype=np.uint32)["signature"]
    pairs = gpulsh.candidate_pairs(gpulsh.Banding(bands=21, rows=6)(gpulsh.Signatures(signatures[:])))
    print(f"{len(pairs):,} candidate pairs")

    # Which rows are dropped is decided over all of them; what is given is given back, a Dataset of the kept ones.
    kept = gpulsh.deduplicate(dataset, text_column="text", threshold=0.8).filter(dataset)
    print(f"{len(kept):,} of {len(dataset):,} kept")
    kept.save_to_disk(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
