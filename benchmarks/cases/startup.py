"""The wait before any work: import, help, the first run with nothing compiled, the next one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from benchmarks.bench import Bench, line

TITLE = "Start-up"
REPEATS = 15
DOCUMENTS = 1_000
WORK: dict[str, Any] = {}


def _seconds(command: list[str], cache: Path | None = None) -> float | None:
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": str(cache)} if cache else {})}
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    took = time.perf_counter() - began
    return took if done.returncode == 0 else None


def _medians(commands: dict[str, list[str]]) -> dict[str, float | None]:
    """Paired: each repeat runs every command once; the first round, from a cold disk, is not counted."""
    took: dict[str, list[float | None]] = {name: [] for name in commands}
    for _ in range(REPEATS + 1):
        for name, command in commands.items():
            took[name].append(_seconds(command))
    known = {name: [s for s in seconds[1:] if s is not None] for name, seconds in took.items()}
    return {name: median(seconds) if seconds else None for name, seconds in known.items()}


def run(bench: Bench) -> dict[str, Any]:
    command = str(Path(sys.executable).with_name("gpulsh"))
    took = _medians(
        {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import gpulsh": [sys.executable, "-c", "import gpulsh"],
            "gpulsh --help": [command, "--help"],
        }
    )
    source = bench.work / "first.parquet"
    pq.write_table(pq.read_table(bench.corpus, columns=["text"]).slice(0, DOCUMENTS), source)
    # One empty cache a round, then a second run in it. Compiled modules next to the package would hide the first run's
    # work, so the cache is always told.
    first, warm = [], []
    spent: dict[str, list[float | None]] = {"first": [], "again": []}
    for turn in range(bench.rounds):
        cache, out = bench.work / f"numba-{turn}", bench.work / "first-out"
        for seconds, processor in ((first, spent["first"]), (warm, spent["again"])):
            shutil.rmtree(out, ignore_errors=True)
            before = _processor()
            seconds.append(_seconds([command, "dedup", str(source), "-o", str(out), "--backend", "cpu"], cache))
            processor.append(_processor() - before)
    took["gpulsh dedup, 1,000 documents, empty cache"] = _middle(first)
    took["gpulsh dedup, 1,000 documents, again"] = _middle(warm)
    took["first, processor time"], took["again, processor time"] = map(_middle, spent.values())
    numpy = took["import numpy"]

    def above(name: str) -> float | None:
        seconds = took[name]
        return None if seconds is None or numpy is None else round(seconds - numpy, 3)

    lines = [
        line("import gpulsh above import numpy, s", above("import gpulsh"), 0.1, at_least=False),
        line("gpulsh --help above import numpy, s", above("gpulsh --help"), 0.35, at_least=False),
        line("first dedup, empty Numba cache, s", _rounded(_middle(first)), 6, at_least=False),
        line("dedup again, s", _rounded(_middle(warm)), 1.5, at_least=False),
    ]
    rows = [{"command": name, "seconds": _rounded(seconds)} for name, seconds in took.items()]
    return {"rows": rows, "checks": [], "lines": lines, "raw": []}


def _processor() -> float:
    """Seconds that all processes which were run so far have taken of it."""
    taken = os.times()
    return taken.children_user + taken.children_system


def _middle(seconds: list[float | None]) -> float | None:
    known = [s for s in seconds if s is not None]
    return median(known) if known else None


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
