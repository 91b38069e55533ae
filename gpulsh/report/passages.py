"""report.html of passages: the amount of marked text, how often it occurs, and the passages that take up most text.

It is a function of report.json alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulsh.report.page import flat, page_template
from gpulsh.report.wording import interval, percent, share
from gpulsh.stats.stages import OF_ITEMS, OF_PASSAGES

_KEPT = {
    "first": "Of equal windows the first stays whole.",
    "minimal": "Tokens of every window that repeats are marked.",
    "none": "Tokens of every window that occurs more than once are marked, the first included.",
}


def write_passages_page(path: Path, report: Mapping[str, Any]) -> None:
    """Write the page of a report. All text in it is escaped."""
    found, parameters = report["passages"], report["parameters"]
    parts = (("Documents", "documents_marked", "documents"), ("Bytes of text", "bytes_marked", "bytes"))
    amounts = [
        {
            "name": name,
            "count": f"{found[marked]:,} of {found[whole]:,}",
            "share": share(found[marked], found[whole]),
            "part": percent(found[marked], found[whole]),
        }
        for name, marked, whole in parts
    ]
    windows, seconds, known = report["windows"], report["stages"], {**OF_PASSAGES, **OF_ITEMS}
    most, whole = max((entry["before"] for entry in windows), default=0), sum(seconds.values())
    classes = [
        {**entry, "name": interval(entry["least"], entry["most"]), "part": percent(entry["before"], most)}
        for entry in windows
    ]
    stages = [
        {"name": name, "seconds": took, "part": percent(took, whole), "meaning": known[name].meaning}
        for name, took in seconds.items()
    ]
    html = page_template("passages.html").render(
        report=report,
        found=found,
        parameters=parameters,
        amounts=amounts,
        kept=_kept(parameters, found),
        items="protect" in parameters,
        unit=parameters.get("part", "window"),
        classes=classes,
        frequent=[
            {**one, "more": len(one["text"].encode()) < one["stop"] - one["start"]} for one in report["frequent"]
        ],
        stages=stages,
        flat=sorted(flat("", parameters)),
        share=share,
    )
    path.write_text(html, encoding="utf-8", errors="replace")


def _kept(parameters: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if "protect" in parameters:
        return (
            f"The test set has {found['items']:,} items. The marked text covers at least"
            f" {share(parameters['coverage'], 1)} of the tokens of one, in windows of {parameters['passages']} tokens."
        )
    if "part" not in parameters:
        return _KEPT[parameters["keep"]]
    within = "" if parameters["within"] is None else " of documents with an equal value of " + parameters["within"]
    return f"Of equal {parameters['part']}s{within} the first {parameters['max_copies']:,} stay."
