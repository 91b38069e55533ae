"""gpulsh's decision against brute force at four thresholds."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench, line
from benchmarks.cases.endtoend import WORK, check
from benchmarks.job import Job

TITLE = "Quality of the decision, by all true pairs"
THRESHOLDS = (0.5, 0.7, 0.8, 0.9)

__all__ = ["THRESHOLDS", "TITLE", "WORK", "run"]


def run(bench: Bench) -> dict[str, Any]:
    checks = []
    lines = []
    for threshold in THRESHOLDS:
        job = Job("quality", "deduplicate", "gpulsh", bench.corpus, 2, threshold, rows=bench.rows)
        found = check(bench, job, bench.truth())
        checks.append({"threshold": threshold, **found})
        if "true_pairs_resolved" in found:
            both = None if found["true_pairs_resolved"] is None else round(100 * (1 - found["true_pairs_resolved"]), 4)
            lines.append(line(f"at {threshold}: true pairs with both kept, %", both, 0.5, at_least=False))
            wrong = sum(found[k] for k in ("witness_not_kept", "witness_below_threshold", "reported_similarity_wrong"))
            lines.append(line(f"at {threshold}: dropped without a right witness", wrong, 0, at_least=False))
    return {"rows": [], "checks": checks, "lines": lines, "raw": []}
