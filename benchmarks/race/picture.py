"""The results as a picture: what more documents take, and how good the decisions are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.race.page import OURS, summary

PANELS = ("seconds", "memory MiB")


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Costs of the runs at the higher threshold on all cores; quality of the largest of them that most finished."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    cores, threshold = max(row["cores"] for row in rows), max(row["threshold"] for row in rows)
    shown = [row for row in rows if row["cores"] == cores and row["threshold"] == threshold]
    names = list(dict.fromkeys(row["library"] for row in shown))
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    axes = figure.subplots(1, 3)
    for number, name in enumerate(names):
        ours = name in OURS
        style: dict[str, Any] = {
            "color": ("black" if ours else f"C{number % 10}"),
            "marker": "o*"[ours] if number < 10 or ours else "s",
            "linewidth": 2.5 if ours else 1,
            "linestyle": "--" if name == OURS[1] else "-",
            "label": name,
        }
        lines = [(row["documents"], summary(row)) for row in shown if row["library"] == name and not row["failed"]]
        for axis, column in zip(axes, PANELS, strict=False):
            axis.plot([n for n, _ in lines], [line[column] for _, line in lines], **style)
        if lines:
            found, good = (lines[-1][1][column] or 0 for column in ("recall", "kept duplicate"))
            axes[2].plot(found, good, **style | {"linestyle": ""})
    for axis, column in zip(axes, PANELS, strict=False):
        axis.set(xscale="log", yscale="log", xlabel="documents", title=f"{column}, {cores} cores, at {threshold}")
        axis.xaxis.set_major_formatter("{x:,.0f}")
        for each in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
            each(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
        axis.grid(alpha=0.3, which="both")
    axes[2].set(xlabel="recall", ylabel="dropped with a kept duplicate", title="quality, the largest race finished")
    axes[2].grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "race"}):  # text as text, and equal files of equal rows
        figure.savefig(path, metadata={"Date": None})
