"""Real licence texts at 0.8: full of pairs just below the threshold, the hard case for verification."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from benchmarks import truth as brute
from benchmarks.bench import Bench, find, good, line, ratio, row
from benchmarks.cases.endtoend import WORK, check
from benchmarks.corpora import licences
from benchmarks.engines.base import SHINGLE
from benchmarks.job import Job

TITLE = "Licence texts at 0.8 (rivals unverified)"

__all__ = ["TITLE", "WORK", "run"]


def run(bench: Bench) -> dict[str, Any]:
    path = bench.work / "licences.parquet"
    if not path.exists():
        licences.make(path)
    corpus = str(path)
    truth = bench.truth(corpus)
    exact = ~brute.keep_first(truth.n, truth.at(0.8))
    names = bench.with_case("licences", "deduplicate")
    checks = [check(bench, Job("licences", "deduplicate", e, corpus), truth) for e in names]
    answer = {
        "engine": "brute force, keep first",
        "documents": truth.n,
        "dropped": int(exact.sum()),
        "true_pairs": len(truth.at(0.8)),
        "pairs_0.5_to_0.8": int(((truth.similarity >= 0.5) & (truth.similarity < 0.8)).sum()),
    }
    # Other tools' figures set documents of fewer than five words aside.
    short = np.array([len(re.findall(r"\w+", text)) < SHINGLE for text in bench.texts(corpus)])
    answer["dropped_of_five_words_or_more"] = int((exact & ~short).sum())
    measured = bench.paired([Job("licences", "deduplicate", e, corpus, t) for t in bench.threads for e in names])
    lines = []
    ours = find(measured, "gpulsh", 1)
    if ours:
        rensa = [o for e in ("rensa", "rensa-deduplicator") if (o := find(measured, e, 1))]
        if rensa:
            least = min(rensa, key=lambda o: min(good(o), default=1e9))
            said = "licences, one thread: gpulsh verified / rensa's faster way unverified"
            lines.append(line(said, ratio(ours, least), 1, at_least=False))
        for found in checks:
            if found["engine"] == "gpulsh" and "dropped" in found:
                missed = round(100 * (1 - found["dropped"] / answer["dropped"]), 3)
                lines.append(line("licences: exact keep-first drops missed, %", missed, 0.5, at_least=False))
                lines.append(
                    line(
                        "licences: dropped without a right witness",
                        found["witness_not_kept"] + found["witness_below_threshold"],
                        0,
                        at_least=False,
                    )
                )
    return {"rows": [row(j, o) for j, o in measured], "checks": [answer, *checks], "lines": lines, "raw": measured}
