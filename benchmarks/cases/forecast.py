"""Estimates of `gpulsh dedup --dry-run` compared with actual runs of the same files: time, memory and disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from benchmarks.bench import Bench, line
from benchmarks.corpora import job_ads
from benchmarks.tree_memory import Peak
from gpulsh.forecast.sample import run_dedup as run_alone

TITLE = "Estimates from a sample, and actual runs"
WORK: dict[str, Any] = {}
MANY = 200_000  # job advertisements made from the corpus
WITHIN = 1.25
LOOK = 0.02  # seconds between two looks at OUT
JUDGED = ("seconds", "processor seconds", "memory MB", "OUT at most MB", "kept rows MB")
SHOWN = (*JUDGED, "dropped", "dropped, at most")


def run(bench: Bench) -> dict[str, Any]:
    table = pq.read_table(bench.corpus).slice(0, bench.rows)
    whole, many = (bench.work / f"forecast-{name}.parquet" for name in ("all", bench.documents or MANY))
    pq.write_table(table, whole, row_group_size=10_000)
    if not many.exists():
        job_ads.make(many, table["text"].to_pylist(), bench.documents or MANY)
    rows, lines = [], []
    for path in (whole, many):
        name = f"{pq.read_metadata(path).num_rows:,} documents, Parquet"
        rounds = [(_estimate(bench, path), _actual(bench, path)) for _ in range(bench.rounds + 1)][1:]
        for quantity in SHOWN:
            estimated, actual = (median(one[quantity] for one in side) for side in zip(*rounds, strict=True))
            ratio = median(a[quantity] / b[quantity] for a, b in rounds)
            numbers = {
                "estimated": float(f"{estimated:.4g}"),
                "actual": float(f"{actual:.4g}"),
                "ratio": round(ratio, 2),
            }
            rows.append({"files": name, "what": quantity, **numbers})
            if quantity in JUDGED:
                statement = f"{name}: {quantity}, estimate and actual, the greater by the other"
                lines.append(line(statement, round(max(ratio, 1 / ratio), 2), WITHIN, at_least=False))
    return {"rows": rows, "checks": [], "lines": lines, "raw": []}


def _options(bench: Bench) -> list[str]:
    return ["--backend=cpu", f"--threads={max(bench.threads)}"]


def _estimate(bench: Bench, path: Path) -> dict[str, Any]:
    out = bench.work / "forecast-out"
    command = [sys.executable, "-m", "gpulsh", "dedup", str(path), "-o", str(out), "--dry-run", "--json"]
    done = subprocess.run([*command, *_options(bench)], capture_output=True, text=True, check=True)
    assert not out.exists()
    found = json.loads(done.stdout)
    likely, most = found["likely"], found["most"]["corpus"]["dropped"]
    return _numbers(likely, likely["work"] + likely["data"] + likely["evidence"], most)


def _actual(bench: Bench, path: Path) -> dict[str, Any]:
    out = bench.work / "actual-out"
    with Peak(lambda: _size(out), LOOK) as largest:
        _, usage = run_alone([*_options(bench), str(path)], out)
    shutil.rmtree(out)
    return _numbers({**asdict(usage), "all": usage.all}, largest.peak, usage.corpus.dropped)


def _size(folder: Path) -> int:
    """Bytes of all files, each counted once although a rename may show it twice."""
    found: dict[int, int] = {}
    for path in folder.rglob("*"):
        with suppress(OSError):  # the run removed it meanwhile
            seen = path.stat()
            found[seen.st_ino] = 0 if path.is_dir() else seen.st_size
    return sum(found.values())


def _numbers(found: dict[str, Any], out: float, max_dropped: float) -> dict[str, Any]:
    return {
        "seconds": found["all"],
        "processor seconds": found["processor"],
        "memory MB": found["memory"] / 1e6,
        "OUT at most MB": out / 1e6,
        "kept rows MB": found["data"] / 1e6,
        "dropped": found["corpus"]["dropped"],
        "dropped, at most": max_dropped,
    }
