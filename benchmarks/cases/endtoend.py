"""Texts to decision at 0.8: gpulsh verifies every pair exactly, the rivals as far as their notes say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bench import Bench, Outcome, find, good, line, on_threads, ratio, row
from benchmarks.engines.base import Engine
from benchmarks.job import Job
from benchmarks.score import Truth, score, witnesses

TITLE = "End to end at 0.8 (rivals unverified)"


def prepare(engine: Engine, texts: Any, job: Job) -> Callable[[], Any]:
    return lambda: engine.deduplicate(texts, job.threshold, **job.options)


def facts(engine: Engine, result: Any, job: Job) -> dict[str, Any]:
    decision = engine.decision(result)
    if job.answer:
        arrays = {"keep": decision.keep, "witness": decision.witness, "similarity": decision.similarity}
        np.savez(job.answer, **{name: array for name, array in arrays.items() if array is not None})
    return {"kept": int(decision.keep.sum()), "dropped": int((~decision.keep).sum()), **_funnel(result)}


def _funnel(result: Any) -> dict[str, Any]:
    """The stages and seconds that gpulsh reports, for the record's JSON."""
    funnel = getattr(result, "funnel", None)
    return {} if funnel is None else {"funnel": funnel.to_dict()}


WORK = {"deduplicate": (prepare, facts)}


def check(bench: Bench, job: Job, truth: Truth) -> dict[str, Any]:
    """One run's decision against all true pairs."""
    outcome, answer = bench.answer(job)
    if not answer:
        return {"engine": job.engine, **outcome}
    found = {"engine": job.engine, **score(truth, job.threshold, answer["keep"])}
    if "similarity" in answer:
        dropped = np.flatnonzero(~answer["keep"])
        witness = answer["witness"]
        exact = truth.look_up(dropped, witness[dropped])
        found |= witnesses(job.threshold, answer["keep"], witness, answer["similarity"][dropped], exact)
    return found


def run(bench: Bench) -> dict[str, Any]:
    names = bench.with_case("endtoend", "deduplicate")
    truth = bench.truth()
    checks = [
        check(
            bench, Job("endtoend", "deduplicate", e, bench.corpus, threads=max(bench.threads), rows=bench.rows), truth
        )
        for e in names
    ]
    jobs = [
        Job("endtoend", "deduplicate", e, bench.corpus, threads=t, rows=bench.rows)
        for t in bench.threads
        for e in names
    ]
    measured = bench.paired(jobs)
    megabytes = bench.text_bytes(bench.corpus, bench.rows) / 1e6
    lines = []
    for threads in bench.threads:
        ours = find(measured, "gpulsh", threads)
        if not ours:
            continue
        said = on_threads(threads)
        rensa = [o for e in names if e in ("rensa", "rensa-deduplicator") and (o := find(measured, e, threads))]
        fastest: list[Outcome] | None = min(rensa, key=lambda o: min(good(o), default=1e9)) if rensa else None
        if fastest:
            statement = f"end to end, {said}: rensa's faster way / gpulsh verified"
            lines.append(line(statement, ratio(fastest, ours), 10, at_least=True))
        daft = find(measured, "Daft", threads)
        if daft:
            statement = f"end to end, {said}: Daft unverified / gpulsh verified"
            lines.append(line(statement, ratio(daft, ours), 2, at_least=True))
        others = {e: find(measured, e, threads) for e in names if e != "gpulsh"}
        peaks = [min(good(o, "peak_MiB"), default=1e9) for o in others.values() if o]
        if peaks and good(ours, "peak_MiB"):
            least = max(good(ours, "peak_MiB")) / min(peaks)
            statement = f"end to end, {said}: gpulsh's greatest peak / the rivals' least"
            lines.append(line(statement, round(least, 2), 1, at_least=False))
    return {"rows": [row(j, o, megabytes) for j, o in measured], "checks": checks, "lines": lines, "raw": measured}
