"""The whole verified `deduplicate` against signing alone, in turns, so a slow machine slows both."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench, line, on_threads, ratio, row
from benchmarks.job import Job

TITLE = "Verified deduplication against signing alone"
WORK: dict[str, Any] = {}  # that of `signature` and `endtoend`


def run(bench: Bench) -> dict[str, Any]:
    corpus, rows = bench.corpus, bench.rows
    lines, raw = [], []
    for threads in bench.threads:
        signing = Job("signature", "signature", "gpulsh", corpus, threads=threads, rows=rows)
        whole = Job("endtoend", "deduplicate", "gpulsh", corpus, threads=threads, rows=rows)
        measured = bench.paired([signing, whole])
        (_, alone), (_, verified) = measured
        statement = f"verified `deduplicate` / signing alone, {on_threads(threads)}"
        lines.append(line(statement, ratio(verified, alone), 2, at_least=False))
        raw += measured
    megabytes = bench.text_bytes(corpus, rows) / 1e6
    table = [{"work": job.work, **row(job, outcomes, megabytes)} for job, outcomes in raw]
    return {"rows": table, "checks": [], "lines": lines, "raw": raw}
