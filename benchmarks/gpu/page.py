"""python -m benchmarks.gpu.page FOLDER: a Markdown page of a folder's records, and a picture where matplotlib is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import CASES
from benchmarks.record import table

PAGE, PICTURE = "gpu.md", "gpu.svg"


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder by case, in the order of the cases."""
    found = {}
    for name in CASES:
        path = folder / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text())
    return found


def write(folder: Path) -> Path:
    """The page's path; the picture is in the same folder."""
    records = read(folder)
    if not records:
        raise FileNotFoundError(f"{folder} holds none of {', '.join(f'{name}.json' for name in CASES)}")
    first = next(iter(records.values()))
    smi = first["smi"]
    lines = [
        f"# {first['device']}, {first['date']}",
        "",
        f"{first['multiprocessors']} multiprocessors, {first['memory_GiB']:g} GiB, driver"
        f" {smi.get('driver_version', first['cuda_driver'])}, CUDA {first['cuda_runtime']}, CuPy {first['cupy']};"
        f" processor: {first['cpu']}; gpulsh {first['gpulsh']}.",
        "",
    ]
    if smi:
        lines += [", ".join(f"{name} {value}" for name, value in smi.items()) + ".", ""]
    picture = _picture(records, folder / PICTURE)
    lines += [f"![Shares of the limits, and seconds of the stages]({PICTURE})" if picture is None else picture, ""]
    for name, record in records.items():
        ran = f"`{record['command']}`, commit {record['commit'] or 'unknown'}, {record['seconds']} s (`{name}.json`)"
        lines += [f"## {record['title']}", "", ran, ""]
        if "error" in record:
            lines += [f"**Failed:** {record['error']}", ""]
        if record["rows"]:
            lines += [table([_short(row) for row in record["rows"]]), ""]
        for figure, value in record["figures"].items():
            if "cost" in figure:
                lines += [f"- {figure}: {value:.3g}"]
        lines += [f"- checked: {check}" for check in record["checks"]]
        lines += [f"- not measured: {what}" for what in record["not_measured"]]
        lines += [""]
    path = folder / PAGE
    path.write_text("\n".join(lines).rstrip() + "\n")
    return path


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Four digits are what a median of such rounds carries."""
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in row.items()}


def _picture(records: dict[str, dict[str, Any]], path: Path) -> str | None:
    """None, or why there is none."""
    try:
        from benchmarks.gpu.picture import draw
    except ImportError as error:
        return f"No picture: {error}."
    return draw(records, path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.gpu.page FOLDER")
    print(write(Path(sys.argv[1])))
