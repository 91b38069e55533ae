"""Buckets that hold the whole corpus: one template with own content, one page copied, against unrelated pages."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench, line, ratio, row
from benchmarks.cases.endtoend import WORK
from benchmarks.cases.sampled import kept_pairs, sampled_witnesses
from benchmarks.corpora import templates
from benchmarks.job import Job

TITLE = "Hot buckets: 200,000 pages at 0.8"
THRESHOLD = 0.8

__all__ = ["TITLE", "WORK", "run"]


def run(bench: Bench) -> dict[str, Any]:
    documents = bench.documents or templates.DOCUMENTS
    texts: list[str] = []
    jobs = []
    checks = []
    for kind in templates.KINDS:
        path = bench.work / f"{kind}-{documents}.parquet"
        if not path.exists():
            texts = texts or bench.texts(bench.corpus, bench.rows)
            templates.make(path, kind, texts, documents)
        job = Job("hot_buckets", "deduplicate", "gpulsh", str(path), 2, THRESHOLD)
        outcome, answer = bench.answer(job)
        found: dict[str, Any] = {"corpus": kind}
        if answer:
            found |= sampled_witnesses(str(path), THRESHOLD, answer)
            found |= kept_pairs(str(path), answer["keep"], THRESHOLD, 2_000)
        else:
            found |= outcome
        checks.append(found)
        jobs.append(job)
    measured = bench.paired(jobs)
    rows = [{"corpus": kind, **row(j, o)} for kind, (j, o) in zip(templates.KINDS, measured, strict=True)]
    plain = measured[-1][1]
    lines = [
        line(
            f"hot buckets: {kind} / unrelated, processor time", ratio(outcomes, plain, "cpu_seconds"), 4, at_least=False
        )
        for kind, (_, outcomes) in zip(templates.KINDS, measured[:-1], strict=False)
    ]
    return {"rows": rows, "checks": checks, "lines": lines, "raw": measured}
