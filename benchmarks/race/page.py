"""The results as a page: the conditions, a table a heat, where gpulsh is not first, each library's settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engines import DECIDERS, decider_class
from benchmarks.record import table

OURS = ("gpulsh", "gpulsh dedup")
# What counts as better: the least of the first four, the greatest of the others.
COSTS = ("seconds", "cpu seconds", "memory MiB", "disk MiB")
QUALITY = {
    "precision": "dropped_with_true_duplicate",
    "recall": "true_pairs_resolved",
    "kept duplicate": "dropped_with_kept_true_duplicate",
}

MEANING = """\
Each run is a process of its own on the given cores, from the same Parquet files to the list of kept rows, start-up
included. *seconds* is its elapsed time, *cpu seconds* the processor time of it and its children. *memory* is the peak
resident size, sampled every 25 ms; of several processes it is the sum, with shared pages counted once. *disk* is the
peak size of its temporary and final files. All are medians of the rounds.

Quality counts pairs whose exact Jaccard similarity of word 5-shingles is at least the threshold. *precision* is the
share of the dropped documents that have such a duplicate, *recall* the share of such pairs of which at most one
document stays. *kept duplicate* is the share of the dropped documents that have such a duplicate among the kept ones.

Below each table are the columns in which the better way of gpulsh is not the best.
"""


def write(folder: Path, told: dict[str, Any]) -> Path:
    """rivals.json with every round, and rivals.md."""
    (folder / "rivals.json").write_text(json.dumps(told, indent=1) + "\n")
    described = told["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in described["versions"].items())
    lines = [
        f"# The race: {described['cpu']}, {described['cores']} cores, {told['date']}",
        "",
        f"`{told['command']}`, commit {described['commit']}, Python {described['python']}, {versions};"
        f" {described['java']}. Load before: {described['load_before']}, after: {described['load_after']}.",
        "",
        MEANING,
        "![Seconds and memory by number of documents, and quality](rivals.svg)",
        "",
    ]
    for (documents, threshold, cores), heat in groupby(told["rows"], _heat):
        rows = sorted((summary(row) for row in heat), key=lambda row: row.get("seconds", float("inf")))
        origin, loose, strict = told["truth"][documents]
        lines += [
            f"## {documents:,} documents at {threshold}, {cores} core{'s' if cores > 1 else ''}",
            "",
            f"True pairs: {loose:,} at 0.5, {strict:,} at 0.8, by {origin}.",
            "",
            table(rows),
            "",
            *(f"- {line}" for line in not_first(rows)),
            "",
        ]
    lines += ["## Settings of each library", "", *(f"- {name}: {_note(name)}" for name in _names(told)), ""]
    path = folder / "rivals.md"
    path.write_text("\n".join(lines))
    return path


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """A line of the table."""
    if row["failed"]:
        return {"library": row["library"], "note": row["failed"]}
    rounds = row["rounds"]
    cost = {
        "seconds": median(one["seconds"] for one in rounds),
        "cpu seconds": median(one["cpu_seconds"] for one in rounds),
        "memory MiB": median(one["memory"] for one in rounds) / 2**20,
        "disk MiB": median(one["disk"] for one in rounds) / 2**20,
    }
    quality = {name: row[key] for name, key in QUALITY.items()}
    return {"library": row["library"], **{name: round(value, 2) for name, value in cost.items()},
            "dropped": row["dropped"], **quality}  # fmt: skip


def not_first(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Each column in which the better of gpulsh's two ways is not the best."""
    done = [row for row in rows if "seconds" in row]
    ours = [row for row in done if row["library"] in OURS]
    found = []
    for column in (*COSTS, *QUALITY) if ours else ():
        better = min if column in COSTS else max
        counted = [row for row in done if row[column] is not None]
        if not counted:
            continue
        best = better(counted, key=lambda row: row[column])
        best_of_ours = better((row for row in ours if row[column] is not None), key=lambda row: row[column])
        if best_of_ours[column] != best[column]:
            found.append(f"{column}: " + ", ".join(f"{row['library']} {row[column]}" for row in (best, best_of_ours)))
    return found


def _heat(row: dict[str, Any]) -> tuple[int, float, int]:
    return row["documents"], row["threshold"], row["cores"]


def _names(told: dict[str, Any]) -> list[str]:
    ran = {row["library"] for row in told["rows"]}
    return [name for name in DECIDERS if name in ran]


def _note(name: str) -> str:
    try:
        return decider_class(name).note
    except ImportError as error:
        return f"absent ({error})"
