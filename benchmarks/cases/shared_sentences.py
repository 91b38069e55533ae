"""8,000 pages of 45 of 60 shared sentences, and twice as many: pairs are quadratic, only the cost of each can fall."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench, line, ratio, row
from benchmarks.cases.endtoend import WORK
from benchmarks.cases.sampled import kept_pairs, sampled_witnesses
from benchmarks.corpora import shared_sentences
from benchmarks.job import Job

TITLE = "Shared sentences: pages of 45 of 60 at 0.8"
DOCUMENTS = 8_000
THRESHOLD = 0.8

__all__ = ["TITLE", "WORK", "run"]


def run(bench: Bench) -> dict[str, Any]:
    documents = bench.documents or DOCUMENTS
    texts: list[str] = []
    jobs, checks = [], []
    for count in (documents, 2 * documents):
        path = bench.work / f"shared_sentences-{count}.parquet"
        if not path.exists():
            texts = texts or bench.texts(bench.corpus, bench.rows)
            shared_sentences.make(path, texts, count)
        job = Job("shared_sentences", "deduplicate", "gpulsh", str(path), 2, THRESHOLD)
        outcome, answer = bench.answer(job)
        found: dict[str, Any] = {"pages": count}
        if answer:
            found |= sampled_witnesses(str(path), THRESHOLD, answer)
            found |= kept_pairs(str(path), answer["keep"], THRESHOLD, 2_000)
        else:
            found |= outcome
        checks.append(found)
        jobs.append(job)
    measured = bench.paired(jobs)
    rows = [{"pages": check["pages"], **row(j, o)} for check, (j, o) in zip(checks, measured, strict=True)]
    lines = [
        line(f"{documents:,} pages of shared sentences, two threads, s", rows[0]["seconds"], 20, at_least=False),
        line(
            "twice as many pages of shared sentences / as many",
            ratio(measured[1][1], measured[0][1]),
            4.5,
            at_least=False,
        ),
    ]
    return {"rows": rows, "checks": checks, "lines": lines, "raw": measured}
