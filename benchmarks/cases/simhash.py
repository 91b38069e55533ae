"""The pairs at 0.8 that SimHash finds: by shingles, by distance, as a filter, and in Henzinger's combination."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpulsh
from benchmarks.bench import Bench, line
from gpulsh.params import NearBits
from gpulsh.theory import default_distance, near_probability

TITLE = "SimHash at 0.8: Henzinger's combination, shingles, and the distance of a run"
WORK: dict[str, Any] = {}
THRESHOLD = 0.8
AT_ONCE = 1 << 24  # pairs whose bits are compared
RUNS: dict[str, dict[str, Any]] = {
    "default": {},
    "--and simhash:3": {"also": gpulsh.SimHash(), "distance": 3},
    "--and simhash": {"also": gpulsh.SimHash()},
    "--sketch simhash:64:3": {"sketch": gpulsh.SimHash(), "distance": 3},
    "--sketch simhash": {"sketch": gpulsh.SimHash()},
}


def run(bench: Bench) -> dict[str, Any]:
    texts = bench.texts(bench.corpus, bench.rows)
    true = bench.truth().at(THRESHOLD)
    how = {"backend": "cpu", "threads": max(bench.threads)}
    runs = list(_runs(texts, how))
    lost = {row["run"]: row["lost, %"] for row in runs}
    lines = [
        line(f"{name}: duplicates of the default that it does not drop, %", lost[name], 1, at_least=False)
        for name in ("--and simhash", "--sketch simhash")
    ]
    rows = [*_henzinger(texts, true, how), *_by_shingles(texts, true, how), *runs]
    return {"rows": rows, "checks": [], "lines": lines, "raw": []}


def _henzinger(texts: list[str], true: NDArray[np.int64], how: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Which share of the pairs of supershingles has so many of 384 bits alike."""
    minima = gpulsh.MinHash(num_perm=84).from_texts(texts, shingling="word:5", **how)
    pairs = gpulsh.Supershingles()(minima, **how)
    alike_enough = np.isin(_packed(pairs), _packed(true))
    for shingles in ("word:5", "word:1"):
        words = gpulsh.SimHash(bits=384, weights="count").from_texts(texts, shingling=shingles, **how)
        alike = 384 - gpulsh.hamming(words, pairs, **how)
        for least in (372, 355):
            kept = alike >= least
            yield {
                "of": f"pairs of supershingles, bits of {shingles}, {least} of 384 alike",
                "pairs": len(pairs),
                "kept, %": round(100 * float(kept.sum() / max(len(kept), 1)), 1),
                "precision": round(float(alike_enough[kept].sum() / max(kept.sum(), 1)), 3),
                "recall": round(float(alike_enough[kept].sum() / max(len(true), 1)), 3),
            }


def _by_shingles(texts: list[str], true: NDArray[np.int64], how: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The distance of 64 bits at which F1 is greatest, and what theory and the paper's 3 find; over all pairs."""
    chosen = default_distance(NearBits(bits=64, weights="set", seed=1, distance=0), THRESHOLD, near_probability)
    for shingles, weights in (("word:5", "set"), ("word:1", "set"), ("word:1", "count")):
        sketch = gpulsh.SimHash(weights=weights)  # type: ignore[arg-type]
        bits = sketch.from_texts(texts, shingling=shingles, **how)
        filled = np.diff(gpulsh.shingle(texts, shingling=shingles, **how).offset) > 0
        words = np.asarray(bits.values)[:, 0]
        found = np.cumsum(_distances(words[filled]))
        right = np.cumsum(np.bincount(np.bitwise_count(words[true[:, 0]] ^ words[true[:, 1]]), minlength=65))
        f1 = 2 * right / np.maximum(found + len(true), 1)
        best = int(f1.argmax())
        for name, distance in (("best F1", best), ("3", 3), ("default", chosen.distance)):
            yield {
                "of": f"all pairs, {shingles} by {weights}, {name}",
                "distance": distance,
                "recall": round(float(right[distance] / max(len(true), 1)), 3),
                "precision": round(float(right[distance] / max(found[distance], 1)), 3),
                "F1": round(float(f1[distance]), 3),
            }


def _distances(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many of all pairs differ in 0 to 64 bits."""
    found, step = np.zeros(65, np.int64), max(AT_ONCE // max(len(words), 1), 1)
    for start in range(0, len(words), step):
        some, rest = words[start : start + step], words[start + step :]
        found += np.bincount(np.bitwise_count(some[:, None] ^ rest).ravel(), minlength=65)
        within = np.bitwise_count(some[:, None] ^ some)[np.triu_indices(len(some), 1)]
        found += np.bincount(within, minlength=65)
    return found


def _runs(texts: list[str], how: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each run: its time, and how many of the default's dropped documents it drops."""
    gpulsh.deduplicate(texts[:100], **how)
    dropped = None
    for name, given in RUNS.items():
        began = process_time()
        keep = gpulsh.deduplicate(texts, threshold=THRESHOLD, **given, **how).keep
        took = process_time() - began
        dropped = ~keep if dropped is None else dropped
        lost = 100 * float((dropped & keep).sum() / max(dropped.sum(), 1))
        yield {"run": name, "dropped": int((~keep).sum()), "lost, %": round(lost, 1), "cpu s": round(took, 2)}


def _packed(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    packed: NDArray[np.int64] = pairs[:, 0] << 32 | pairs[:, 1]
    return packed
