"""report.json: what was asked, of what, on what, and how many documents and seconds each stage took."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gpulsh.account.counts import definitions
from gpulsh.backends.processors import processors
from gpulsh.backends.protocol import Backend
from gpulsh.facts import Facts
from gpulsh.params import SCHEME, Parameters
from gpulsh.report.versions import versions


def describe(
    *,
    began: datetime,
    seconds: float,
    compiling: float,
    parameters: Facts,
    method: Parameters,
    backend: Backend,
    engine: Facts,
    inputs: Sequence[str],
    rows: Sequence[tuple[str, int]],
    sources: Sequence[Facts],
    funnel: Facts,
    evidence: Facts,
    page: str | None,
    outputs: Sequence[str],
) -> dict[str, Any]:
    """The report as JSON values.

    `compiling` are those of the seconds in which kernels were compiled, `rows` are the files with the rows in each,
    `sources` the INPUTs and protected paths that they are of, in the same order, with the number of files of each;
    `evidence` is the summary of duplicates.parquet, `page` why there is no report.html, `outputs` are the paths
    written, below OUT.
    """
    known = versions()
    return {
        "gpulsh": known["gpulsh"],  # also marks the folder as gpulsh's own
        "scheme": SCHEME,
        "began": began.isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "compiling": round(compiling, 3),  # of the seconds; no stage's are of it
        "parameters": {**parameters, **json.loads(method.to_json())},
        "digest": method.digest(),
        "backend": {"name": backend.name, "device": getattr(backend, "device", None)},
        "engine": dict(engine),
        "versions": known,
        "machine": machine(),
        "inputs": list(inputs),
        "files": [{"file": file, "rows": count} for file, count in rows],
        "sources": [dict(source) for source in sources],
        "funnel": dict(funnel),
        "definitions": definitions(),
        "evidence": dict(evidence),
        "page": {"written": page is None, "reason": page},
        "outputs": list(outputs),
    }


def machine() -> Facts:
    """What the work ran on, beside the backend's device."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
    except OSError:
        model = None
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = None
    return {
        "system": platform.platform(),
        "processor": model or platform.machine(),
        "processors": processors(),
        "memory_bytes": memory,
    }


def write_report(path: Path, report: Facts) -> None:
    """Indented JSON in ASCII, so that a file's name that is no UTF-8 does no harm."""
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="ascii")
