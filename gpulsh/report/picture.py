"""The two pictures of the page, as numbers for its template: candidate pairs, and dropped documents, by similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpulsh.theory import SCurve

BINS = 100  # of similarity, from 0 to 1
WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 24, 44  # margins
APART = 56  # width of the space for the bar of similarity 1
UNDER_CURVE = 0.6  # of the height, for bars under the curve
STEPS, MOST_TICKS = (1, 2, 5, 10, 20), 6  # hundredths from one label of the axis to the next

Picture = Mapping[str, Any]


def candidates_picture(counts: Mapping[str, Any], threshold: float, curve: SCurve | None) -> Picture:
    """Candidate pairs by similarity, in another colour below the threshold, and the S-curve of the banding."""
    below, at = _below_one(counts), _x(threshold)
    most = max(below.values(), default=1) / (UNDER_CURVE if curve else 1)
    levels = [(k / 4, f"{25 * k} %") for k in range(5)] if curve else [(k / 2, _brief(most * k / 2)) for k in range(3)]
    wide = _x(1 / BINS) - _x(0)
    bars = [
        _bar("under" if low / BINS >= threshold - 1e-9 else "under less", _x(low / BINS), wide, count / most)
        for low, count in below.items()
    ]
    mark = {"x": at, "text": f"threshold {threshold:g}", "left": threshold > 0.5}
    title, line = "Candidate pairs by Jaccard similarity", {}
    if curve is not None:
        similarity, found = np.linspace(0, 1, 201), float(curve.probability(threshold))
        probability = np.asarray(curve.probability(similarity)).tolist()
        points = " ".join(f"{_x(s):.1f},{_y(p):.1f}" for s, p in zip(similarity.tolist(), probability, strict=True))
        title = f"Probability that two documents become a candidate pair, by similarity: {found:.4f} at {threshold:g}"
        line = {"points": points, "start": f"{LEFT},{_y(0)}", "end": f"{_x(1)},{_y(0)}", "dot": _y(found)}
    ticks = [(k / 5, f"{k / 5}") for k in range(6)]
    return _picture(title, "Jaccard similarity", ticks, levels, bars) | {"mark": mark, "line": line}


def similarity_picture(counts: Mapping[str, Any], threshold: float, measure: str) -> Picture:
    """Dropped documents by similarity with the kept one. Similarity 1 has a bar of its own, with its count.

    A bar that would make the others flat is drawn broken, without a scale.
    """
    contained = measure == "containment"
    alike, axis = ("containment", "Containment in") if contained else ("similarity", "Jaccard similarity with")
    below, one = _below_one(counts), counts["one"]
    first = min([*below, int(threshold * BINS + 1e-9), BINS - 5])
    most = max([*below.values(), 1 if below else one, 1])
    inner = WIDTH - LEFT - RIGHT
    wide = (inner - APART) / (BINS - first)
    bars = [
        _bar(
            "bar",
            LEFT + (at - first) * wide,
            wide,
            count / most,
            f"{at / BINS:.2f} to {(at + 1) / BINS:.2f}: {count:,}",
        )
        for at, count in below.items()
    ]
    left, width = WIDTH - RIGHT - APART * 0.7, APART * 0.7
    bars.append(_bar("bar one", left, width, min(one / most, 1), f"1: {one:,}"))
    step = next(step for step in STEPS if (BINS - first) / step <= MOST_TICKS)
    ticks = [((at - first) * wide / inner, f"{at / BINS:.2f}") for at in range(-(-first // step) * step, BINS, step)]
    ticks.append(((left + width / 2 - LEFT) / inner, "1"))
    levels = [(part, _brief(most * part)) for part in ((0, 0.5, 1) if most > 1 else (0, 1))]
    title = f"Dropped documents by {alike} {axis.split()[-1]} the kept one: {one:,} of {alike} 1"
    broken = {"x": left - 3, "width": width / 2 + 3} if one > most else {}
    return _picture(title, f"{axis} the kept document", ticks, levels, bars) | {"one": f"{one:,}", "broken": broken}


def _picture(
    title: str,
    axis: str,
    ticks: Sequence[tuple[float, str]],
    levels: Sequence[tuple[float, str]],
    bars: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    frame = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": _y(0)}
    marks = {
        "ticks": [(_x(part), label) for part, label in ticks],
        "levels": [(_y(part), name) for part, name in levels],
    }
    absent = {"mark": {}, "line": {}, "one": "", "broken": {}}  # unless the picture has them
    return {"title": title, "axis": axis, "bars": bars, **absent, **frame, **marks}


def _brief(count: float) -> str:
    """A count of few characters.

    >>> [_brief(count) for count in (9.5, 2500, 1_250_000, 3e9)]
    ['10', '2,500', '1.2 M', '3,000.0 M']
    """
    return f"{count:,.0f}" if count < 100_000 else f"{count / 1e6:,.1f} M"


def _below_one(counts: Mapping[str, Any]) -> dict[int, int]:
    """Counts by hundredths of similarity."""
    return {round(float(low) * BINS): count for low, count in counts["below_one"].items()}


def _bar(kind: str, left: float, wide: float, part: float, name: str = "") -> Mapping[str, Any]:
    tall = max((_y(0) - TOP) * part, 1) if part else 0
    return {"kind": kind, "x": left + 0.5, "y": _y(0) - tall, "width": max(wide - 1, 1), "height": tall, "name": name}


def _x(part: float) -> float:
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def _y(part: float) -> float:
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
