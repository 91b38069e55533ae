"""A whole `gpulsh dedup`, start-up included, against a process that only reads, filters and writes the same file."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench import Bench, Outcome, environment, line, on_threads, ratio
from benchmarks.job import Job

TITLE = "Parquet to Parquet at 0.8, against bare pyarrow"
WORK: dict[str, Any] = {}
THRESHOLD = 0.8
GROUP_ROWS = 10_000
ENGINES = ("gpulsh", "bare pyarrow")
# The corpus as it is given, and copies of it, by the packing of what is read; and what is written.
INPUTS = {"as given": "zstd:3", "snappy": "snappy", "zstd:3": "zstd:3"}
BARE = Path(__file__).parents[1] / "bare_parquet.py"


def run(bench: Bench) -> dict[str, Any]:
    inputs = {kind: _input(bench, kind) for kind in INPUTS}
    jobs = [
        Job("files_to_files", kind, engine, str(path), threads, THRESHOLD)
        for threads in bench.threads
        for kind, path in inputs.items()
        for engine in ENGINES
    ]
    checks = [_check(bench, kind, path) for kind, path in inputs.items()]
    measured: list[tuple[Job, list[Outcome]]] = [(job, []) for job in jobs]
    for turn in range(bench.rounds):
        for place in range(len(jobs)):
            job, outcomes = measured[(turn + place) % len(jobs)]
            outcomes.append(_outcome(bench, job))
            bench.say(f"  round {turn + 1}  {job.work:<8} {job.engine:<12} x{job.threads} {outcomes[-1]}")
    lines = []
    for (job, ours), (_, bare) in zip(measured[::2], measured[1::2], strict=True):
        statement = f"Parquet {job.work}, {on_threads(job.threads)}: processor time of gpulsh / bare pyarrow"
        lines.append(line(statement, ratio(ours, bare, "cpu_seconds"), 2, at_least=False))
    return {"rows": [_row(*one) for one in measured], "checks": checks, "lines": lines, "raw": measured}


def _input(bench: Bench, kind: str) -> Path:
    """The file to read; rows as they are in the corpus, every column."""
    if kind == "as given" and bench.rows is None:
        return Path(bench.corpus)
    table = pq.read_table(bench.corpus).slice(0, bench.rows)
    path = bench.work / f"files-{kind.replace(' ', '-').replace(':', '-')}-{len(table)}.parquet"
    codec, _, level = INPUTS[kind].partition(":")
    pq.write_table(
        table, path, compression=codec, compression_level=int(level) if level else None, row_group_size=GROUP_ROWS
    )
    return path


def _check(bench: Bench, kind: str, path: Path) -> dict[str, Any]:
    """One run of both, before the clock: the bare process is given the decision, and has to write the same rows."""
    for engine in ENGINES:
        _outcome(bench, Job("files_to_files", kind, engine, str(path), max(bench.threads), THRESHOLD))
    ours, bare = (_output(bench, path, engine) for engine in ENGINES)
    kept = pq.read_table(ours)
    return {
        "file": kind,
        "read_MB": round(path.stat().st_size / 1e6, 1),
        "rows": pq.read_metadata(path).num_rows,
        "kept": len(kept),
        "same rows": kept.equals(pq.read_table(bare)),
        "gpulsh_MB": round(ours.stat().st_size / 1e6, 1),
        "bare_MB": round(bare.stat().st_size / 1e6, 1),
    }


def _output(bench: Bench, path: Path, engine: str) -> Path:
    return _folder(bench, path) / "data" / path.name if engine == "gpulsh" else bench.work / f"bare-{path.name}"


def _folder(bench: Bench, path: Path) -> Path:
    return bench.work / f"out-{path.stem}"


def _command(bench: Bench, job: Job) -> list[str]:
    path, packing = Path(job.corpus), INPUTS[job.work]
    if job.engine == "gpulsh":
        told = ["-o", str(_folder(bench, path)), "--threshold", str(job.threshold), "--backend", "cpu"]
        return [
            *(sys.executable, "-m", "gpulsh", "dedup", str(path), *told),
            *("--threads", str(job.threads), "--compression", packing),
        ]
    keep = np.ones(pq.read_metadata(path).num_rows, bool)
    keep[pq.read_table(_folder(bench, path) / "duplicates.parquet", columns=["row"])["row"].to_numpy()] = False
    pq.write_table(pa.table({"keep": keep}), bench.work / "keep.parquet")
    output = _output(bench, path, job.engine)
    return [sys.executable, str(BARE), str(path), str(bench.work / "keep.parquet"), str(output), packing]


def _outcome(bench: Bench, job: Job) -> Outcome:
    """A whole process, from nothing to its end."""
    command = _command(bench, job)
    if job.engine == "gpulsh":
        shutil.rmtree(_folder(bench, Path(job.corpus)), ignore_errors=True)
    # An installed package has its bytecode next to it.
    surroundings = {k: v for k, v in environment(job.threads).items() if k != "PYTHONDONTWRITEBYTECODE"}
    cores = sorted(os.sched_getaffinity(0))
    before, began = _spent(), time.perf_counter()
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        env=surroundings,
        preexec_fn=lambda: os.sched_setaffinity(0, cores[-job.threads :]),
    )
    seconds, (user, system) = time.perf_counter() - began, (np.array(_spent()) - before).round(3).tolist()
    return {"seconds": round(seconds, 3), "cpu_seconds": user + system, "user": user, "system": system}


def _spent() -> tuple[float, float]:
    """Processor seconds of all processes that were waited for, in themselves and in the system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


def _row(job: Job, outcomes: list[Outcome]) -> dict[str, Any]:
    told = {"file": job.work, "engine": job.engine, "threads": job.threads}
    names = ("cpu_seconds", "user", "system", "seconds")
    return {
        **told,
        **{name: round(median(outcome[name] for outcome in outcomes), 3) for name in names},
        "least cpu_seconds": round(min(outcome["cpu_seconds"] for outcome in outcomes), 3),
    }
