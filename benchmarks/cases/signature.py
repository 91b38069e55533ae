"""Text to MinHash signature, k = 128, word 5-shingles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bench import Bench, find, line, ratio, row
from benchmarks.engines.base import NUM_PERM, Engine
from benchmarks.job import Job

TITLE = "Text to signature"
SAMPLED_PAIRS = 20_000


def _prepare(engine: Engine, texts: Any, job: Job) -> Callable[[], Any]:
    return lambda: engine.text_to_signature(texts)


def _facts(engine: Engine, result: Any, job: Job) -> dict[str, Any]:
    if job.answer:
        np.savez(job.answer, signatures=engine.matrix(result))
    return {}


WORK = {"signature": (_prepare, _facts)}


def run(bench: Bench) -> dict[str, Any]:
    names = bench.with_case("signature", "signature")
    job = Job("signature", "signature", "", bench.corpus, rows=bench.rows)
    checks = [_check(bench, Job(**{**vars(job), "engine": name})) for name in names]
    jobs = [Job(**{**vars(job), "engine": e, "threads": t}) for t in bench.threads for e in names]
    measured = bench.paired(jobs)
    megabytes = bench.text_bytes(bench.corpus, bench.rows) / 1e6
    lines = []
    ours = find(measured, "gpulsh", 1)
    if ours:
        for rival, target in (("Daft", 3.0), ("rensa", 10.0), ("datasketch", 15.0)):
            theirs = find(measured, rival, 1)
            if theirs:
                statement = f"text to signature, one thread: {rival} time / gpulsh time"
                lines.append(line(statement, ratio(theirs, ours), target, at_least=True))
        two = find(measured, "gpulsh", 2)
        if two:
            lines.append(line("text to signature: one thread / two", ratio(ours, two), 1.8, at_least=True))
    rows = [row(j, o, megabytes) for j, o in measured]
    return {"rows": rows, "checks": checks, "lines": lines, "raw": measured}


def _check(bench: Bench, job: Job) -> dict[str, Any]:
    """The share of equal numbers of a true pair must estimate its Jaccard, with the deviation that k allows."""
    outcome, answer = bench.answer(job)
    if not answer:
        return {"engine": job.engine, **outcome}
    truth = bench.truth()
    chosen = np.random.default_rng(1).permutation(len(truth.pairs))[:SAMPLED_PAIRS]
    pairs, similarity = truth.pairs[chosen], truth.similarity[chosen]
    signatures = answer["signatures"]
    estimate = np.concatenate(
        [(signatures[p[:, 0]] == signatures[p[:, 1]]).mean(axis=1) for p in np.array_split(pairs, 64) if len(p)]
    )
    error = estimate - similarity
    theory = np.sqrt(np.mean(similarity * (1 - similarity) / NUM_PERM))
    return {
        "engine": job.engine,
        "pairs": len(pairs),
        "mean_error": round(float(error.mean()), 4),
        "rms_error / theory": round(float(np.sqrt(np.mean(error**2)) / theory), 3),
    }
