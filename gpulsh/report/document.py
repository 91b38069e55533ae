"""report.json: what was asked, of what, on what, and how many documents and seconds each stage took."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gpulsh.params import SCHEME, Parameters
from gpulsh.report.versions import versions


def describe(
    *,
    began: datetime,
    seconds: float,
    parameters: Mapping[str, Any],
    plan: Parameters,
    backend: Any,
    inputs: Sequence[str],
    rows: Sequence[tuple[str, int]],
    funnel: Mapping[str, Any],
    outputs: Sequence[str],
) -> dict[str, Any]:
    """The report as JSON values. `rows` are the files with the rows in each, `outputs` the paths written, below OUT."""
    known = versions()
    return {
        "gpulsh": known["gpulsh"],  # also marks the folder as gpulsh's own
        "scheme": SCHEME,
        "began": began.isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "parameters": {**parameters, **json.loads(plan.to_json())},
        "digest": plan.digest(),
        "backend": {"name": backend.name, "device": getattr(backend, "device", None)},
        "versions": known,
        "inputs": list(inputs),
        "files": [{"file": file, "rows": count} for file, count in rows],
        "funnel": dict(funnel),
        "outputs": list(outputs),
    }


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Indented JSON in ASCII, so that a file's name that is no UTF-8 does no harm."""
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="ascii")
