"""FastSimilarity against MinHash: processor time, recall and error over lengths of documents and of signatures.

The corpus gives the documents: its pages, the first words of each, and many pages joined into one. Each round makes all
signatures with both sketches in turns, from texts and from ready fingerprints, with equal values and threads. Recall is
the share of pairs at the threshold that meet in a band. Errors are the errors of estimates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import gpulsh
from benchmarks import truth
from benchmarks.bench import Bench
from benchmarks.score import Truth
from gpulsh.sketch.base import SetSketch
from gpulsh.theory import default_banding

TITLE = "FastSimilarity against MinHash, on the CPU"
WORK: dict[str, Any] = {}
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
FIRST_WORDS = {"12 words": 12, "50 words": 50}  # of a page
SHORTER = 10  # times as many of these as of pages
JOINED = 20  # pages of a long document
DOCUMENTS = 1000
THRESHOLD = 0.8
AMONG = ("MinHash", "FastSimilarity")


def run(bench: Bench) -> dict[str, Any]:
    """A row for each kind of documents, number of values and number of threads."""
    count = bench.documents or DOCUMENTS
    texts = bench.texts(bench.corpus, count * SHORTER)
    kinds = {kind: [" ".join(text.split()[:words]) for text in texts] for kind, words in FIRST_WORDS.items()}
    kinds["pages"] = texts[:count]
    kinds["20 pages"] = [" ".join(texts[i : i + JOINED]) for i in range(0, count, JOINED)]
    rows = []
    for kind, texts in kinds.items():
        fingerprints = gpulsh.shingle(texts, backend="cpu")
        shingles = float(np.median(fingerprints.lengths))
        known = Truth(len(texts), *truth.similar_pairs(*truth.shingle_sets(texts), 0.5))
        column = pa.array(texts, pa.large_string())
        for length in LENGTHS:
            quality = {name: _quality(_sketch(name, length), fingerprints, known) for name in AMONG}
            for threads in bench.threads:
                took = _rounds(column, fingerprints, length, threads, bench.rounds)
                row: dict[str, Any] = {"documents": kind, "shingles": shingles, "num_perm": length, "threads": threads}
                for work in ("texts", "fingerprints"):
                    for name in AMONG:
                        seconds = median(one[work, name] for one in took)
                        row[f"{name}, {work}, ms"] = round(1000 * seconds, 1)
                    ratios = [one[work, AMONG[1]] / one[work, AMONG[0]] for one in took]
                    row[f"ratio, {work}"] = round(median(ratios), 3)
                for measure in ("recall", "error"):
                    for name in AMONG:
                        row[f"{name}, {measure}"] = quality[name][measure]
                rows.append(row)
                bench.say(f"  {kind} {length} values, {threads} threads: {row['ratio, texts']} {quality}")
    return {"rows": rows, "checks": [], "lines": [], "raw": []}


def _sketch(name: str, length: int, seed: int = 1) -> SetSketch:
    found: SetSketch = getattr(gpulsh, name)(num_perm=length, seed=seed)
    return found


def _rounds(
    column: pa.Array, fingerprints: gpulsh.Fingerprints, length: int, threads: int, rounds: int
) -> list[dict[tuple[str, str], float]]:
    """Processor seconds of each work by each sketch, in turns, after one that is not counted."""
    took = []
    for turn in range(-1, rounds):
        order = AMONG if turn % 2 else AMONG[::-1]
        one: dict[tuple[str, str], float] = {}
        for name in order:
            sketch = _sketch(name, length)
            where: Any = {"backend": "cpu", "threads": threads}
            one["texts", name] = _seconds(partial(sketch.from_texts, column, **where))
            one["fingerprints", name] = _seconds(partial(sketch, fingerprints, **where))
        if turn >= 0:
            took.append(one)
    return took


def _seconds(make: Callable[[], object]) -> float:
    began = time.process_time()
    make()
    return time.process_time() - began


def _quality(sketch: SetSketch, fingerprints: gpulsh.Fingerprints, known: Truth) -> dict[str, float | None]:
    """The share of true pairs that meet in a band, and the root mean square error of estimates; None without pairs."""
    if not len(known.pairs):
        return {"recall": None, "error": None}
    signatures = sketch(fingerprints, backend="cpu")
    bands, rows = default_banding(sketch.num_perm, THRESHOLD)
    digests = gpulsh.Banding(bands=bands, rows=rows)(signatures, backend="cpu").values
    asked = known.at(THRESHOLD)
    meet = (digests[asked[:, 0]] == digests[asked[:, 1]]).any(axis=1)
    errors = sketch.estimate(signatures, known.pairs, backend="cpu") - known.similarity
    return {
        "recall": round(float(meet.mean()), 5) if len(asked) else None,
        "error": round(float(np.sqrt((errors**2).mean())), 5),
    }
