"""scikit-learn: for each new text the known one that it resembles most, by signatures in a pipeline.

python examples/scikit_learn.py TEXTS.parquet      # a column "text", whose last tenth is new
"""

from __future__ import annotations

import sys

import pyarrow.parquet as pq
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline

import gpulsh
from gpulsh.compat.sklearn import SketchVectorizer


def main(path: str) -> None:
    texts = pq.read_table(path).column("text").to_pylist()
    known, new = texts[: len(texts) * 9 // 10], texts[len(texts) * 9 // 10 :]

    # The share of columns in which two signatures differ, `hamming`, is 1 - their estimated Jaccard similarity.
    pipeline = make_pipeline(
        SketchVectorizer(gpulsh.MinHash(num_perm=256), shingling="word:5"),
        NearestNeighbors(n_neighbors=1, metric="hamming"),
    ).fit(known)
    distances, rows = pipeline[-1].kneighbors(pipeline[:-1].transform(new))

    similar = 1 - distances[:, 0] >= 0.8
    print(f"{similar.sum():,} of {len(new):,} new texts resemble a known one")
    for place in similar.nonzero()[0][:5]:
        nearest = known[rows[place, 0]]
        print(f"{1 - distances[place, 0]:.3f}  {new[place][:40]!r}  resembles  {nearest[:40]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
