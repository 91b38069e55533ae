"""Runs jobs, each in a fresh interpreter, paired: every round runs every job once, in an order that turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import truth
from benchmarks.job import Job
from benchmarks.score import Truth

Outcome = dict[str, Any]


def environment(threads: int) -> dict[str, str]:
    """Every pool that counts processors by itself gets this number."""
    one = str(threads)
    names = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
    quiet = {"DAFT_PROGRESS_BAR": "0", "DO_NOT_TRACK": "1", "DAFT_ANALYTICS_ENABLED": "0", "SCARF_NO_ANALYTICS": "1"}
    return {**os.environ, **quiet, **dict.fromkeys(names, one)}


@dataclass
class Bench:
    """The options of the command, and the folder for made corpora and answers."""

    corpus: str
    pairs: str | None
    work: Path
    rounds: int
    engines: list[str]
    threads: list[int]
    rows: int | None = None
    documents: int | None = None
    say: Callable[[str], None] = print
    _truth: dict[str, Truth] = field(default_factory=dict)

    def run(self, job: Job) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.worker", job.to_json()],
            capture_output=True,
            text=True,
            env=environment(job.threads),
            check=False,
        )
        if done.returncode:
            return {"error": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]}
        outcome: Outcome = json.loads(done.stdout.splitlines()[-1])
        return outcome

    def answer(self, job: Job) -> tuple[Outcome, dict[str, Any]]:
        """One run outside the clock whose arrays come back for checking."""
        path = self.work / f"answer-{job.case}-{job.engine}.npz"
        path.unlink(missing_ok=True)
        outcome = self.run(replace(job, answer=str(path)))
        if not path.exists():
            return outcome, {}
        with np.load(path) as saved:
            return outcome, dict(saved)

    def paired(self, jobs: Sequence[Job]) -> list[tuple[Job, list[Outcome]]]:
        outcomes: list[list[Outcome]] = [[] for _ in jobs]
        for turn in range(self.rounds):
            order = [(turn + i) % len(jobs) for i in range(len(jobs))]
            for at in order:
                job = jobs[at]
                outcome = self.run(job)
                outcomes[at].append(outcome)
                seconds = outcome.get("seconds")
                told = f"{seconds:8.3f} s {outcome['peak_MiB']:9.1f} MiB" if seconds else f"failed: {outcome['error']}"
                self.say(f"  round {turn + 1}  {job.case}/{job.work:<11} {job.engine:<19} x{job.threads} {told}")
        return list(zip(jobs, outcomes, strict=True))

    def with_case(self, name: str, doing: str) -> list[str]:
        """The chosen engines that can do this work."""
        from benchmarks.engines import engine_class

        return [e for e in self.engines if doing in engine_class(e).does]

    def texts(self, path: str, rows: int | None = None) -> list[str]:
        column = pq.read_table(path, columns=["text"])["text"]
        return list((column if rows is None else column.slice(0, rows)).to_pylist())

    def text_bytes(self, path: str, rows: int | None = None) -> int:
        import pyarrow.compute as pc

        column = pq.read_table(path, columns=["text"])["text"]
        return int(pc.sum(pc.binary_length(column if rows is None else column.slice(0, rows))).as_py())

    def truth(self, path: str | None = None) -> Truth:
        """All pairs >= 0.5 of a corpus: read where they were given, else computed by brute force."""
        path = path or self.corpus
        if path not in self._truth:
            n = pq.read_metadata(path).num_rows
            n = min(n, self.rows or n) if path == self.corpus else n
            if path == self.corpus and self.pairs:
                table = pq.read_table(self.pairs)
                pairs = np.stack([table["i"].to_numpy(), table["j"].to_numpy()], axis=1).astype(np.int64)
                similarity = table["jaccard"].to_numpy()
                inside = pairs[:, 1] < n
                self._truth[path] = Truth(n, pairs[inside], similarity[inside])
            else:
                self.say("  brute force: all pairs at or above 0.5")
                values, offset = truth.shingle_sets(self.texts(path, n))
                self._truth[path] = Truth(n, *truth.similar_pairs(values, offset, 0.5))
        return self._truth[path]


def good(outcomes: Sequence[Outcome], key: str = "seconds") -> list[float]:
    return [float(o[key]) for o in outcomes if key in o]


def row(job: Job, outcomes: Sequence[Outcome], megabytes: float | None = None) -> dict[str, Any]:
    """A table row: medians and minima over the rounds."""
    seconds = good(outcomes)
    if not seconds:
        return {"engine": job.engine, "threads": job.threads, "error": outcomes[0].get("error", "?")}
    out: dict[str, Any] = {
        "engine": job.engine,
        "threads": job.threads,
        "seconds": round(median(seconds), 4),
        "min": round(min(seconds), 4),
        "cpu": round(median(good(outcomes, "cpu_seconds")), 4),
        "peak_MiB": median(good(outcomes, "peak_MiB")),
    }
    if megabytes is not None:
        out["MB/s"] = round(megabytes / median(seconds), 1)
    for key, value in outcomes[-1].items():
        if key not in ("seconds", "cpu_seconds", "peak_MiB"):
            out[key] = value
    return out


def ratio(slow: Sequence[Outcome], fast: Sequence[Outcome], key: str = "seconds") -> float | None:
    """Median over the rounds of slow / fast, each within one round: what slows the machine slows both."""
    both = [a[key] / b[key] for a, b in zip(slow, fast, strict=True) if key in a and b.get(key)]
    return round(median(both), 2) if both else None


def find(measured: Sequence[tuple[Job, list[Outcome]]], engine: str, threads: int) -> list[Outcome] | None:
    for job, outcomes in measured:
        if job.engine == engine and job.threads == threads:
            return outcomes
    return None


def on_threads(count: int) -> str:
    """How many threads, as statements have it."""
    return "one thread" if count == 1 else f"{count} threads"


def line(statement: str, measured: float | None, target: float, *, at_least: bool) -> dict[str, Any]:
    """One acceptance line."""
    met = None if measured is None else (measured >= target if at_least else measured <= target)
    return {"statement": statement, "target": ("≥ " if at_least else "≤ ") + f"{target:g}", "measured": measured,
            "met": met}  # fmt: skip
