"""Ray Data: makes signatures where the rows are, and drops near-duplicates from the whole dataset.

    python examples/ray_data.py INPUT... OUT

INPUT are Parquet files, folders or URLs with columns "id" and "text". OUT is a folder of Parquet files.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray

import gpulsh

SKETCH = gpulsh.MinHash(num_perm=128)


def signed(rows: pa.Table) -> pa.Table:
    """With a column "signature"."""
    values = np.asarray(SKETCH.from_texts(rows["text"], threads=1))  # Ray runs a task a processor
    return rows.append_column("signature", pa.FixedSizeListArray.from_arrays(values.ravel(), SKETCH.num_perm))


def without(rows: pa.Table, dropped: pa.ChunkedArray) -> pa.Table:
    """The rows whose id is not among `dropped`."""
    return rows.filter(pc.invert(pc.is_in(rows["id"], dropped)))


def main(inputs: list[str], out: str) -> None:
    # Each row's signature is made by whichever worker has the row, and is the same everywhere.
    dataset = ray.data.read_parquet(inputs).map_batches(signed, batch_format="pyarrow").materialize()
    table = pa.concat_tables(dataset.iter_batches(batch_size=None, batch_format="pyarrow"))
    values = table["signature"].combine_chunks().flatten().to_numpy().reshape(-1, SKETCH.num_perm)
    pairs = gpulsh.candidate_pairs(gpulsh.Banding(bands=21, rows=6)(gpulsh.Signatures(values)))
    print(f"{len(pairs):,} candidate pairs")

    # The decision needs all texts together: here in this process. Where they do not fit, write the dataset to Parquet,
    # and let gpulsh.deduplicate_files(..., engine="ray") decide on the same cluster.
    dropped = gpulsh.deduplicate(table["text"], threshold=0.8).duplicates(ids=table["id"])["id"]
    kept = dataset.map_batches(without, batch_format="pyarrow", fn_args=(dropped,)).materialize()
    kept.write_parquet(out)
    print(f"{kept.count():,} of {len(table):,} kept")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/ray_data.py INPUT... OUT")
    if Path(sys.argv[-1]).exists():
        sys.exit(f"{sys.argv[-1]} exists already; give another OUT")
    main(sys.argv[1:-1], sys.argv[-1])
