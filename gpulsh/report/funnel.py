"""The funnel for people: how many documents and pairs pass each stage, and how long each took."""

from __future__ import annotations

from collections import Counter

from gpulsh.account.counts import COUNTS, CountRow
from gpulsh.facts import Facts
from gpulsh.report.foreign import printable

ALWAYS = ("documents", "empty", "exact_copies", "candidates", "verified", "kept", "dropped")
SOMETIMES = ("protected", "rejected", "not_utf8", "stray_bytes")
SHOWN_INPUTS = 10


def funnel_table(report: Facts) -> str:
    """The report's funnel as lines of text: counts in one column, what they mean beside them, seconds below."""
    funnel = report["funnel"]
    asked = funnel["documents"] - funnel["protected"]
    threshold = report["parameters"]["threshold"]
    verify = report["parameters"]["verify"]
    measure = measure_told(report["parameters"])
    judged = {"exact": f"exact {measure}", "signature": f"estimated {measure}", "none": "not verified"}[verify]
    bound = "taken as they met" if verify == "none" else f"{judged} {threshold:g} or more"
    notes = {
        "documents": f"{size(funnel['bytes'])}, {funnel['shingles']:,} shingles",
        "candidates": bound,
        "dropped": share(funnel["dropped"], asked),
        "kept": share(funnel["kept"], asked),
    }
    shown: list[tuple[str, int, str]] = []
    for row in COUNTS.values():
        if row.name in ALWAYS or (row.name in SOMETIMES and funnel[row.name]):
            told = sum_told(row, funnel), notes.get(row.name, row.meaning)
            shown.append((row.label, funnel[row.name], "; ".join(filter(None, told))))
        if row.name == "dropped":
            shown += [("", count, of) for of, count in dropped_for(report)]
    wide = max(len(f"{count:,}") for _, count, _ in shown)
    labels = max(len(label) for label, _, _ in shown)
    lines = [f"{label:<{labels}}  {count:>{wide},}  {meaning}".rstrip() for label, count, meaning in shown]
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in funnel["seconds"].items())
    device = report["backend"]["device"]
    where = report["backend"]["name"] + (f" ({device})" if device else "")
    if report.get("engine", {}).get("name") == "ray":
        where += f", {report['engine']['workers']} workers of a Ray cluster"
    compiling = report.get("compiling", 0.0)
    stages += f"; {compiling:.1f} to compile kernels" if compiling >= 0.1 else ""
    return "\n".join([*lines, "", f"{report['seconds']:.1f} s on {where}: {stages}"])


def measure_told(parameters: Facts) -> str:
    """The measure of a run, which its parameters tell where it is not Jaccard similarity.

    >>> measure_told({"measure": "containment"})
    'containment'
    """
    return "containment" if parameters.get("measure") == "containment" else "Jaccard"


def sum_told(row: CountRow, funnel: Facts) -> str:
    """The sum that a count is, of the parts that are not 0.

    >>> sum_told(COUNTS["empty"], {"empty": 3, "nulls": 1, "wordless": 2})
    '= 1 null + 2 wordless'
    """
    parts = [f"{funnel[name]:,} {COUNTS[name].label}" for name in row.parts if funnel[name]]
    return f"= {' + '.join(parts)}" if parts else ""


def dropped_for(report: Facts) -> list[tuple[str, int]]:
    """Whose documents the dropped ones are dropped for, and how many, the most first; nothing where it is one INPUT."""
    protected = {entry["input"] for entry in report["sources"] if entry["protected"]}
    if len(report["sources"]) < 2 and report["parameters"].get("index") is None:
        return []
    found, counts = report["evidence"]["dropped_for"], Counter[str]()
    for entry in found["listed"]:
        of = entry["of"]
        kind = " (protected)" if of in protected else ""
        counts["for earlier runs" if of is None else f"for {printable(of)}{kind}"] += entry["count"]
    ranked = counts.most_common()
    rest = found["more"] + sum(count for _, count in ranked[SHOWN_INPUTS:])
    return [*ranked[:SHOWN_INPUTS], *([("for others", rest)] if rest else [])]


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


def share(part: float, whole: float) -> str:
    """A part of the whole in percent, nothing of nothing.

    >>> share(1, 3)
    '33.3 %'
    """
    return f"{100 * part / whole:.1f} %" if whole else ""
