"""The funnel for people: how many documents and pairs pass each stage, and how long each took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def funnel_table(report: Mapping[str, Any]) -> str:
    """The report's funnel as lines of text: counts in one column, what they mean beside them, seconds below."""
    funnel = report["funnel"]
    documents = funnel["documents"]
    threshold = report["parameters"]["threshold"]
    verify = report["parameters"]["verify"]
    judged = {"exact": "exact Jaccard", "signature": "estimated Jaccard", "none": "not verified"}[verify]
    bound = "taken as they met" if verify == "none" else f"{judged} {threshold:g} or more"
    rows = [
        ("documents", documents, f"{size(funnel['bytes'])}, {funnel['shingles']:,} shingles"),
        *([("rejected", funnel["rejected"], "bad records, listed in rejected.parquet")] if funnel["rejected"] else []),
        ("empty", funnel["empty"], f"no word in them, {funnel['nulls']:,} null: kept, never duplicates"),
        ("exact copies", funnel["exact_copies"], "same words as an earlier document"),
        ("candidates", funnel["candidates"], "pairs compared"),
        ("verified", funnel["verified"], f"pairs with {bound}, copies included"),
        ("dropped", funnel["dropped"], share(funnel["dropped"], documents)),
        *([("earlier", funnel["earlier"], "of them for documents of earlier runs")] if _has_index(report) else []),
        ("kept", funnel["kept"], share(funnel["kept"], documents)),
    ]
    wide = max(len(f"{count:,}") for _, count, _ in rows)
    lines = [f"{name:<13} {count:>{wide},}  {meaning}".rstrip() for name, count, meaning in rows]
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in funnel["seconds"].items())
    device = report["backend"]["device"]
    where = report["backend"]["name"] + (f" ({device})" if device else "")
    if report.get("engine", {}).get("name") == "ray":
        where += f", {report['engine']['workers']} workers of a Ray cluster"
    return "\n".join([*lines, "", f"{report['seconds']:.1f} s on {where}: {stages}"])


def _has_index(report: Mapping[str, Any]) -> bool:
    return report["parameters"].get("index") is not None


def size(count: int) -> str:
    """Bytes as people write them.

    >>> size(1234567)
    '1.2 MB'
    """
    if count < 1000:
        return f"{count} B"
    number = float(count)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        number /= 1000
        if number < 1000:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:.1f} EB"


def duration(seconds: float) -> str:
    """Seconds as people write them.

    >>> [duration(number) for number in (0.5, 75, 3725, 200_000)]
    ['0.50 s', '75.0 s', '1 h 02 min', '2 d 7 h']
    """
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, rest = divmod(hours, 24)
    if days >= 2:
        return f"{days:,} d {rest} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


def share(part: int, whole: int) -> str:
    """A part of the whole in percent, nothing of nothing.

    >>> share(1, 3)
    '33.3 %'
    """
    return f"{100 * part / whole:.1f} %" if whole else ""
