"""Every method side by side on the whole corpus: what it finds of the true pairs, in what time, from how many bytes."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import Any

import gpulsh
from benchmarks.bench import Bench, line
from gpulsh.method import Verify
from gpulsh.studies.compare import KINDS

TITLE = "Methods by all true pairs, candidates as they are, by estimate, or verified exactly"
WORK: dict[str, Any] = {}
THRESHOLDS = (0.5, 0.8)
VERIFY: tuple[Verify, ...] = ("none", "signature", "exact")
METHODS = (
    *("minhash:128", "minhash:256", "fast:128", "fast:256", "one-permutation:128", "c-minhash:128"),
    *("simhash:64:3", "simhash:64:6", "simhash-count:64:3", "simhash-idf:64:3"),
    *(name for name in KINDS if name != "affine32"),  # which is minhash
    "b-bit:4",
)


def run(bench: Bench) -> dict[str, Any]:
    """Seconds are medians over the rounds. Each round runs every method once; all else is the same in each."""
    texts, truth = bench.texts(bench.corpus, bench.rows), bench.truth()
    rows, lines = [], []
    for threshold in THRESHOLDS:
        options: dict[str, Any] = {"threshold": threshold, "truth": truth.at(threshold), "sample": max(len(texts), 2)}
        rounds = [
            gpulsh.compare(texts, METHODS, verify=VERIFY, threads=max(bench.threads), backend="cpu", **options).methods
            for _ in range(bench.rounds)
        ]
        for one in zip(*rounds, strict=True):
            assert len({(row.candidates, row.found, row.true) for row in one}) == 1, one
            row = {"threshold": threshold, **asdict(one[0]), "seconds": median(row.seconds for row in one)}
            rows.append({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()})
        wrong = sum(row.found - row.true for row in rounds[0] if row.verify == "exact")
        lines.append(line(f"at {threshold}: pairs verified exactly that are not true", wrong, 0, at_least=False))
    return {"rows": rows, "checks": [], "lines": lines, "raw": []}
