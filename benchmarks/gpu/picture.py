"""The picture of a run: how near each operation comes to what bounds it, and where the seconds of a whole run go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
matplotlib.rcParams["svg.hashsalt"] = "gpulsh"  # the same numbers give the same file

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen first

ARITHMETIC, MEMORY = "#d1762c", "#3b6ea5"


def draw(records: dict[str, dict[str, Any]], path: Path) -> str | None:
    """Write the picture, SVG or PNG by the path's suffix; None, or why there is nothing to draw."""
    bars = _shares(records)
    stages = [(row["from"], row["stages"]) for row in records.get("endtoend", {}).get("rows", [])]
    if not bars and not stages:
        return "No picture: neither operations nor stages were measured."
    heights = [max(len(bars), 1) * 0.24 + 1.1, max(len(stages), 1) * 0.5 + 1.3]
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(10, sum(heights)), height_ratios=heights, layout="constrained"
    )  # fmt: skip
    _draw_shares(upper, bars, records)
    _draw_stages(lower, stages)
    first = next(iter(records.values()))
    figure.suptitle(f"gpulsh on {first['device']}, {first['date']}", x=0.01, ha="left", fontsize=12)
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return None


def _shares(records: dict[str, dict[str, Any]]) -> list[tuple[str, float, str]]:
    """(label, percent of the nearer limit, that limit's colour) of each operation."""
    bars = []
    for row in records.get("kernels", {}).get("rows", []):
        arithmetic, memory = row.get("% of multiply-adds"), row.get("% of copy")
        share = max(arithmetic or 0.0, memory or 0.0)
        if share:
            colour = ARITHMETIC if (arithmetic or 0.0) >= (memory or 0.0) else MEMORY
            bars.append((f"{row['operation']}, {row['input']}", share, colour))
    return bars


def _draw_shares(axes: Any, bars: list[tuple[str, float, str]], records: dict[str, dict[str, Any]]) -> None:
    places = range(len(bars))
    axes.barh(places, [share for _, share, _ in bars], color=[colour for _, _, colour in bars], height=0.72)
    axes.set_yticks(list(places), [label for label, _, _ in bars], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(100, color="black", linewidth=1)
    for place, (_, share, _) in zip(places, bars, strict=True):
        axes.text(share + 0.8, place, f"{share:.3g}", va="center", fontsize=7)
    axes.set_xlim(0, max([100.0, *(share for _, share, _ in bars)]) * 1.06)
    figures = records.get("roofline", {}).get("figures", {})
    copy, roof = figures.get("copy"), figures.get("multiply_add")
    limits = f" (copy: {copy / 1e9:.4g} GB/s; multiply-adds: {roof / 1e12:.4g} T/s)" if copy and roof else ""
    axes.set_xlabel(f"percent of the limit measured in the same run{limits}", fontsize=9)
    axes.set_title("Operations against their limits", loc="left", fontsize=10)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in (ARITHMETIC, MEMORY)]
    names = ["integer multiply-adds", "device copy"]
    axes.legend(handles, names, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_stages(axes: Any, stages: list[tuple[str, dict[str, float]]]) -> None:
    names = list(dict.fromkeys(name for _, seconds in stages for name in seconds))
    colours = plt.get_cmap("tab20")
    ends = [0.0] * len(stages)
    for at, name in enumerate(names):
        widths = [seconds.get(name, 0.0) for _, seconds in stages]
        axes.barh(range(len(stages)), widths, left=ends, label=name, color=colours(at % 20), height=0.6)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    axes.set_yticks(range(len(stages)), [f"from {name}" for name, _ in stages], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("seconds, medians", fontsize=9)
    axes.set_title("Stages of deduplicate", loc="left", fontsize=10)
    if stages:
        axes.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.28))
    axes.spines[["top", "right"]].set_visible(False)
