"""What `gpulsh dedup --dry-run` foretells, beside what the run then takes: time, memory and disk at several sizes."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from benchmarks.bench import Bench, line
from benchmarks.corpora import job_ads
from benchmarks.tree_memory import Peak
from gpulsh.run.foretell.trial import run as taken_by

TITLE = "Foretold by samples, and taken"
WORK: dict[str, Any] = {}
FEW, MANY = 10_000, 200_000  # documents: the first of the corpus, and job advertisements made of it
LOOK = 0.02  # seconds
WITHIN = 1.3
JUDGED = ("seconds", "memory MB", "OUT at most MB", "kept rows MB")
TOLD = (*JUDGED, "processor seconds", "dropped")


def _size(folder: Path) -> int:
    """Bytes of all files."""
    found: dict[int, int] = {}  # a file that is moved meanwhile is met twice
    for path in folder.rglob("*"):
        with suppress(OSError):  # it went while it was looked at
            seen = path.stat()
            found[seen.st_ino] = 0 if path.is_dir() else seen.st_size
    return sum(found.values())


def run(bench: Bench) -> dict[str, Any]:
    inputs = _inputs(bench)
    rounds: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {name: [] for name in inputs}
    for turn in range(bench.rounds + 1):  # the first warms up
        for name, path in inputs.items():
            both = told, took = _foretold(bench, path), _taken(bench, path)
            bench.say(f"  round {turn}  {name:<36} {told['seconds']:.2f} s foretold, {took['seconds']:.2f} s taken")
            if turn:
                rounds[name].append(both)
    rows, lines = [], []
    for name, both in rounds.items():
        for quantity in TOLD:
            told, took = ([one[quantity] for one in side] for side in zip(*both, strict=True))
            ratio = median(a / b for a, b in zip(told, took, strict=True))
            numbers = {"foretold": _rounded(median(told)), "taken": _rounded(median(took)), "ratio": round(ratio, 2)}
            stages = {"stages": [[one["stages"] for one in pair] for pair in both]} if quantity == "seconds" else {}
            rows.append({"files": name, "what": quantity, **numbers, **stages})
            if quantity in JUDGED:
                statement = f"{name}: {quantity}, the greater of foretold and taken by the other"
                lines.append(line(statement, round(max(ratio, 1 / ratio), 2), WITHIN, at_least=False))
    return {"rows": rows, "checks": [], "lines": lines, "raw": []}


def _inputs(bench: Bench) -> dict[str, Path]:
    table = pq.read_table(bench.corpus).slice(0, bench.rows)
    few, whole, lines = (bench.work / f"foretell-{name}" for name in ("few.parquet", "all.parquet", "all.jsonl.gz"))
    many = bench.work / f"foretell-{bench.documents or MANY}.parquet"
    for path, rows in ((few, table.slice(0, FEW)), (whole, table)):
        pq.write_table(rows, path, row_group_size=FEW)
    if not lines.exists():
        with gzip.open(lines, "wt", compresslevel=6) as out:
            for batch in table.to_batches(1000):
                out.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
    if not many.exists():
        job_ads.make(many, table["text"].to_pylist(), bench.documents or MANY)
    found = {f"{pq.read_metadata(path).num_rows:,} documents, Parquet": path for path in (few, whole, many)}
    return {**found, f"{len(table):,} documents, JSON lines, gzip": lines}


def _options(bench: Bench) -> list[str]:
    return ["--backend=cpu", f"--threads={max(bench.threads)}"]


def _foretold(bench: Bench, path: Path) -> dict[str, Any]:
    out = bench.work / "foretold-out"
    command = [sys.executable, "-m", "gpulsh", "dedup", str(path), "-o", str(out), "--dry-run", "--json"]
    done = subprocess.run([*command, *_options(bench)], capture_output=True, text=True, check=True)
    assert not out.exists()
    found = json.loads(done.stdout)
    return _numbers(found["likely"], found["likely"]["work"])


def _taken(bench: Bench, path: Path) -> dict[str, Any]:
    out = bench.work / "taken-out"
    with Peak(lambda: _size(out), LOOK) as largest:
        _, took = taken_by([*_options(bench), str(path)], out)
    shutil.rmtree(out)
    given = {**vars(took), "all": took.all, "corpus": vars(took.corpus)}
    return _numbers(given, largest.peak - took.data - took.evidence)


def _numbers(found: dict[str, Any], work: float) -> dict[str, Any]:
    return {
        "seconds": found["all"],
        "processor seconds": found["processor"],
        "memory MB": found["memory"] / 1e6,
        "OUT at most MB": (work + found["data"] + found["evidence"]) / 1e6,
        "kept rows MB": found["data"] / 1e6,
        "dropped": found["corpus"]["dropped"],
        "stages": dict(found["seconds"]),
    }


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
