"""scikit-learn: finds the most similar known text for each new text, by signatures in a pipeline.

    python examples/scikit_learn.py INPUT... OUT

INPUT are Parquet files with a column "text"; the last tenth of the rows are the new ones. OUT is a Parquet file: the
nearest known row of each new one, and their estimated similarity.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline

import gpulsh
from gpulsh.compat.sklearn import SketchVectorizer


def main(inputs: list[str], out: str) -> None:
    texts = pq.read_table(inputs).column("text").to_pylist()
    known, new = texts[: len(texts) * 9 // 10], texts[len(texts) * 9 // 10 :]

    # The share of columns in which two signatures differ, `hamming`, is 1 - their estimated Jaccard similarity.
    pipeline = make_pipeline(
        SketchVectorizer(gpulsh.MinHash(num_perm=256), shingling="word:5"),
        NearestNeighbors(n_neighbors=1, metric="hamming"),
    ).fit(known)
    distances, rows = pipeline[-1].kneighbors(pipeline[:-1].transform(new))

    pq.write_table(pa.table({"nearest": rows[:, 0], "similarity": 1 - distances[:, 0]}), out)
    similar = 1 - distances[:, 0] >= 0.8
    print(f"{similar.sum():,} of {len(new):,} new texts resemble a known one")
    for place in similar.nonzero()[0][:5]:
        nearest = known[rows[place, 0]]
        print(f"{1 - distances[place, 0]:.3f}  {new[place][:40]!r}  resembles  {nearest[:40]!r}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/scikit_learn.py INPUT... OUT")
    if Path(sys.argv[-1]).exists():
        sys.exit(f"{sys.argv[-1]} exists already; give another OUT")
    main(sys.argv[1:-1], sys.argv[-1])
