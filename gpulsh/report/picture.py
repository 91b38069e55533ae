"""The two pictures of the page, as numbers for its template: candidate pairs, and dropped documents, by similarity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpulsh.theory import SCurve

BINS = 100  # of similarity, from 0 to 1
APART = 56 / 414  # share of the width for the bar of similarity 1
UNDER_CURVE = 0.6  # of the height, for bars under the curve
STEPS, MOST_TICKS = (1, 2, 5, 10, 20), 6  # hundredths from one label of the axis to the next

Picture = Mapping[str, Any]  # places and sizes are shares of the width and height


def candidates_picture(counts: Mapping[str, Any], threshold: float, curve: SCurve | None) -> Picture:
    """Candidate pairs by similarity, in another colour below the threshold, and the S-curve of the banding."""
    below = _below_one(counts)
    most = max(below.values(), default=1) / (UNDER_CURVE if curve else 1)
    levels = [(k / 4, f"{25 * k} %") for k in range(5)] if curve else [(k / 2, _brief(most * k / 2)) for k in range(3)]
    bars = [
        _bar("under" if low / BINS >= threshold - 1e-9 else "under less", low / BINS, 1 / BINS, count / most)
        for low, count in below.items()
    ]
    picture = {
        "title": "Candidate pairs by Jaccard similarity",
        "axis": "Jaccard similarity",
        "ticks": [(k / 5, f"{k / 5}") for k in range(6)],
        "levels": levels,
        "bars": bars,
        "mark": {"x": threshold, "text": f"threshold {threshold:g}", "left": threshold > 0.5},
    }
    if curve is None:
        return picture
    similarity, found = np.linspace(0, 1, 201), float(curve.probability(threshold))
    title = f"Probability that two documents become a candidate pair, by similarity: {found:.4f} at {threshold:g}"
    points = zip(similarity.tolist(), np.asarray(curve.probability(similarity)).tolist(), strict=True)
    return picture | {"title": title, "line": list(points), "dot": found}


def similarity_picture(counts: Mapping[str, Any], threshold: float, measure: str) -> Picture:
    """Dropped documents by similarity with the kept one. Similarity 1 has a bar of its own, with its count.

    A bar that would make the others flat is drawn broken, without a scale.
    """
    contained = measure == "containment"
    alike, axis = ("containment", "Containment in") if contained else ("similarity", "Jaccard similarity with")
    below, one = _below_one(counts), counts["one"]
    first = min([*below, int(threshold * BINS + 1e-9), BINS - 5])
    most = max([*below.values(), 1 if below else one, 1])
    wide = (1 - APART) / (BINS - first)
    bars = [
        _bar("bar", (at - first) * wide, wide, count / most, f"{at / BINS:.2f} to {(at + 1) / BINS:.2f}: {count:,}")
        for at, count in below.items()
    ]
    bars.append(_bar("bar one", 1 - 0.7 * APART, 0.7 * APART, min(one / most, 1), f"1: {one:,}"))
    step = next(step for step in STEPS if (BINS - first) / step <= MOST_TICKS)
    ticks = [((at - first) * wide, f"{at / BINS:.2f}") for at in range(-(-first // step) * step, BINS, step)]
    return {
        "title": f"Dropped documents by {alike} {axis.split()[-1]} the kept one: {one:,} of {alike} 1",
        "axis": f"{axis} the kept document",
        "ticks": [*ticks, (1 - 0.35 * APART, "1")],
        "levels": [(part, _brief(most * part)) for part in ((0, 0.5, 1) if most > 1 else (0, 1))],
        "bars": bars,
        "one": f"{one:,}",
        "broken": one > most,
    }


def _bar(kind: str, left: float, wide: float, tall: float, name: str = "") -> Mapping[str, Any]:
    return {"kind": kind, "x": left, "width": wide, "height": tall, "name": name}


def _brief(count: float) -> str:
    """A count of few characters.

    >>> [_brief(count) for count in (9.5, 2500, 1_250_000, 3e9)]
    ['10', '2,500', '1.2 M', '3,000.0 M']
    """
    return f"{count:,.0f}" if count < 100_000 else f"{count / 1e6:,.1f} M"


def _below_one(counts: Mapping[str, Any]) -> dict[int, int]:
    """Counts by hundredths of similarity."""
    return {round(float(low) * BINS): count for low, count in counts["below_one"].items()}
