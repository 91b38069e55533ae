"""`gpulsh.compat.datasketch` compared with datasketch, and gpulsh's `Index`, one document per call.

datasketch is imported by this Python, or by the Python that DATASKETCH_PYTHON names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import drop_in
from benchmarks.bench import Bench, environment, line

TITLE = "Drop-in for datasketch, and single documents of an index"
WORK: dict[str, Any] = {}
OURS, THEIRS = "gpulsh.compat.datasketch", "datasketch"


def run(bench: Bench) -> dict[str, Any]:
    """Paired: each round runs both, in an order that turns."""
    pythons = {OURS: sys.executable, THEIRS: os.environ.get("DATASKETCH_PYTHON", sys.executable)}
    rounds: list[dict[str, dict[str, Any]]] = []
    for turn in range(bench.rounds):
        order = [OURS, THEIRS][:: -1 if turn % 2 else 1]
        rounds.append({module: _asked(pythons[module], module, max(bench.threads)) for module in order})
        bench.say(f"  round {turn + 1}: bulk {_ratio(rounds[-1:], 'bulk, us a set')} times as fast")
    answers = {found.pop("answer") for one in rounds for found in one.values()}
    (version,) = {found.pop("version") for one in rounds for found in one.values()} - {""}
    checks = [{"check": f"hash values and answers are those of datasketch {version}", "met": len(answers) == 1}]
    ours, theirs = (rounds[0][module] for module in (OURS, THEIRS))
    rows = [
        {
            "what": what,
            "gpulsh": _middle(rounds, OURS, what),
            "datasketch": _middle(rounds, THEIRS, what) if what in theirs else None,
            "times as fast": _ratio(rounds, what) if what in theirs else None,
        }
        for what in ours
    ]
    lines = [line("MinHash.bulk, times as fast", _ratio(rounds, "bulk, us a set"), 20, at_least=True)]
    lines += [line(f"{what[:6].rstrip(',')}, times as fast", _ratio(rounds, what), 1, at_least=True)
              for what in ("insert, us", "query, us")]  # fmt: skip
    lines += [line(what, _middle(rounds, OURS, what), 1, at_least=False) for what in ours if what.endswith("ms")]
    return {"rows": rows, "checks": checks, "lines": lines, "raw": []}


def _asked(python: str, module: str, threads: int) -> dict[str, Any]:
    command = [python, str(Path(drop_in.__file__)), module]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(threads), check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _middle(rounds: list[dict[str, dict[str, Any]]], module: str, what: str) -> float:
    return round(median(one[module][what] for one in rounds), 3)


def _ratio(rounds: list[dict[str, dict[str, Any]]], what: str) -> float:
    return round(median(one[THEIRS][what] / one[OURS][what] for one in rounds), 2)
