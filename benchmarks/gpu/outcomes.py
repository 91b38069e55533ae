"""A pytest plugin: the outcome of each test as a line of JSON, as it ends, in the file that a variable names.

A report that is written at the end says nothing about a run that ends early.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = "GPULSH_OUTCOMES"
SHOWN = 4000  # characters of a failure, its last ones


def pytest_addoption(parser: Any) -> None:
    """Know the limit of a test in pyproject.toml, also without pytest-timeout; without it, no test has one."""
    parser.addini("timeout", "seconds of a test")


def pytest_runtest_logreport(report: Any) -> None:
    """One line per test: of its call, or of a set-up or an end that did not pass."""
    if report.when == "call" or not report.passed:
        _write(report.nodeid, report)


def pytest_collectreport(report: Any) -> None:
    """One line per file that cannot be collected."""
    if not report.passed:
        _write(report.nodeid or "collection", report)


def _write(name: str, report: Any) -> None:
    path = os.environ.get(FILE)
    if path is None or "PYTEST_XDIST_WORKER" in os.environ:  # the process that started the workers hears of every test
        return
    shown = "" if report.passed else report.longreprtext[-SHOWN:]
    message = report.longrepr[2] if isinstance(report.longrepr, tuple) else shown
    found = {"name": name, "outcome": report.outcome, "seconds": round(getattr(report, "duration", 0.0), 3)}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({**found, "message": message.removeprefix("Skipped: ")}) + "\n")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        yield json.loads(line)


def read(path: Path) -> dict[str, Any]:
    """Counts of the outcomes so far, and the names of failed and skipped tests."""
    found = list(_lines(path))
    names = {test["name"] for test in found}
    return {
        "tests": len(names),
        "on_device": sum(bool(re.search(r"\bdevice-\w+", name)) for name in names),
        "failed": [test["name"] for test in found if test["outcome"] == "failed"],
        "skipped": [f"{test['name']}: {test['message']}" for test in found if test["outcome"] == "skipped"],
    }
