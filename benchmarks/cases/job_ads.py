"""400,000 documents of the size of job advertisements: 128 permutations, 42 bands of 3 rows, millions of candidates."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench, find, good, line, row
from benchmarks.cases.endtoend import WORK
from benchmarks.cases.sampled import kept_pairs, sampled_witnesses
from benchmarks.corpora import job_ads
from benchmarks.job import Job

TITLE = "400,000 job advertisements at 0.5, verified"
THRESHOLD = 0.5

__all__ = ["TITLE", "WORK", "run"]


def run(bench: Bench) -> dict[str, Any]:
    documents = bench.documents or job_ads.DOCUMENTS
    path = bench.work / f"job_ads-{documents}.parquet"
    if not path.exists():
        job_ads.make(path, bench.texts(bench.corpus, bench.rows), documents)
    options = {"bands": 42, "rows": 3}
    job = Job("job_ads", "deduplicate", "gpulsh", str(path), 2, THRESHOLD, options=options)
    outcome, answer = bench.answer(job)
    checks: list[dict[str, Any]] = [{"mean_bytes": round(bench.text_bytes(str(path)) / documents)}]
    if answer:
        checks.append(sampled_witnesses(str(path), THRESHOLD, answer))
        checks.append(kept_pairs(str(path), answer["keep"], THRESHOLD, 20_000))
    else:
        checks.append(outcome)
    measured = bench.paired([job])
    ours = find(measured, "gpulsh", 2)
    rows = [row(j, o, bench.text_bytes(str(path)) / 1e6) for j, o in measured]
    lines = []
    if ours and good(ours):
        lines.append(line("400,000 job advertisements, two threads, s", rows[0]["seconds"], 10, at_least=False))
    return {"rows": rows, "checks": checks, "lines": lines, "raw": measured}
