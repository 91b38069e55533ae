"""The corpora of the race, as folders of Parquet files, and their true pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import truth
from benchmarks.corpora.respelled import respelled
from benchmarks.engines.decider import Texts
from benchmarks.score import Truth

FILES = 2  # for the libraries that divide their work by files
GROUP_ROWS = 5_000
FLOOR = 0.5  # of the similarity of the pairs that are counted


@dataclass(frozen=True)
class Course:
    """Documents of one number; `origin` says where the true pairs come from."""

    documents: int
    inputs: Path
    truth: Truth
    origin: str


def course(corpus: Path, pairs: Path | None, documents: int, work: Path, say: Callable[[str], None]) -> Course:
    """The first documents of the corpus, or all and as many respelled copies as it takes; made once in `work`."""
    inputs = work / f"documents-{documents}"
    if not inputs.exists():
        say(f"writing {documents:,} documents")
        _write(list(respelled(pq.read_table(corpus, columns=["text"])["text"].to_pylist(), documents)), inputs)
    if pairs and documents <= pq.read_metadata(corpus).num_rows:
        return Course(documents, inputs, _given(pairs, documents), "the given file of pairs")
    saved = work / f"pairs-{documents}.npz"
    if not saved.exists():
        say(f"brute force: all pairs of {documents:,} documents at or above {FLOOR}")
        found, similarity = truth.similar_pairs(*truth.shingle_sets(list(Texts(inputs))), FLOOR)
        np.savez(saved, pairs=found, similarity=similarity)
    with np.load(saved) as arrays:
        return Course(documents, inputs, Truth(documents, arrays["pairs"], arrays["similarity"]), "brute force")


def _write(texts: list[str], inputs: Path) -> None:
    """Renamed when whole, so that a stopped run leaves no half corpus."""
    unfinished = inputs.with_suffix(".part")
    unfinished.mkdir(exist_ok=True)
    cuts = [len(texts) * part // FILES for part in range(FILES + 1)]
    for number, (start, stop) in enumerate(pairwise(cuts)):
        table = pa.table({"id": [str(row) for row in range(start, stop)], "text": texts[start:stop]})
        pq.write_table(table, unfinished / f"{number:05d}.parquet", row_group_size=GROUP_ROWS)
    unfinished.rename(inputs)


def _given(pairs: Path, documents: int) -> Truth:
    table = pq.read_table(pairs, columns=["i", "j", "jaccard"])
    i, j = (table[name].to_numpy().astype(np.int64) for name in ("i", "j"))
    inside = np.maximum(i, j) < documents
    return Truth(documents, np.stack([i, j], axis=1)[inside], table["jaccard"].to_numpy()[inside])
