"""Signature to candidate pairs. Engines that only flag documents with a partner do less here, and the table says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bench import Bench, find, ratio, row
from benchmarks.engines.base import BANDING, EVEN_BANDS, Engine
from benchmarks.job import Job

TITLE = "Signature to candidate pairs"


def _prepare(engine: Engine, texts: Any, job: Job) -> Callable[[], Any]:
    signatures = engine.text_to_signature(texts)
    return lambda: engine.signatures_to_pairs(signatures, job.threshold)


def _facts(engine: Engine, result: Any, job: Job) -> dict[str, Any]:
    pairs = engine.pairs(result)
    if pairs is None:
        return {"candidates": "flags only"}
    if job.answer:
        np.savez(job.answer, pairs=pairs)
    return {"candidates": len(pairs)}


WORK = {"candidates": (_prepare, _facts)}


def run(bench: Bench) -> dict[str, Any]:
    names = bench.with_case("candidates", "candidates")
    checks = []
    for name in names:
        outcome, answer = bench.answer(Job("candidates", "candidates", name, bench.corpus, rows=bench.rows))
        check: dict[str, Any] = {"engine": name}
        if answer:
            truth = bench.truth()
            true = truth.at(0.8)
            keys = answer["pairs"].min(axis=1) * truth.n + answer["pairs"].max(axis=1)
            check["distinct_candidates"] = len(np.unique(keys))
            check["true_pairs_found"] = round(float(np.isin(true[:, 0] * truth.n + true[:, 1], keys).mean()), 5)
        else:
            check["result"] = outcome.get("error", outcome.get("candidates"))
        checks.append(check)
    jobs = [
        Job("candidates", "candidates", e, bench.corpus, threads=t, rows=bench.rows)
        for t in bench.threads
        for e in names
    ]
    measured = bench.paired(jobs)
    rows = [row(j, o) for j, o in measured]
    ours = {t: find(measured, "gpulsh", t) for t in bench.threads}
    for at, (j, o) in zip(rows, measured, strict=True):
        fast = ours[j.threads]
        at["time / gpulsh"] = ratio(o, fast) if fast else None
        at["bands"] = EVEN_BANDS[0.8] if j.engine.startswith(("rensa", "Fast")) else BANDING[0.8][0]
    return {"rows": rows, "checks": checks, "lines": [], "raw": measured}
