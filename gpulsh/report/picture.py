"""The two pictures of the page, as SVG: candidate pairs by similarity, and dropped documents by similarity.

Classes refer to the page's own colours and fonts, so that the pictures follow its light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpulsh.theory import SCurve

BINS = 100  # of similarity, from 0 to 1
WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 24, 44  # margins
APART = 56  # width of the space for the bar of similarity 1
UNDER_CURVE = 0.6  # of the height, for bars under the curve
STEPS, MOST_TICKS = (1, 2, 5, 10, 20), 6  # hundredths from one label of the axis to the next


def candidates_picture(counts: Mapping[str, Any], threshold: float, curve: SCurve | None) -> str:
    """Candidate pairs by similarity, in another colour below the threshold, and the S-curve of the banding."""
    below, at = _below_one(counts), _x(threshold)
    found = float(curve.probability(threshold)) if curve else 0.0
    most = max(below.values(), default=1) / (UNDER_CURVE if curve else 1)
    levels = [(k / 4, f"{25 * k} %") for k in range(5)] if curve else [(k / 2, _brief(most * k / 2)) for k in range(3)]
    kinds = {low: "under" if low / BINS >= threshold - 1e-9 else "under less" for low in below}
    parts = [
        _axes("Jaccard similarity", [(k / 5, f"{k / 5}") for k in range(6)]),
        *(_level(_y(part), label) for part, label in levels),
        *(_bar(kinds[low], _x(low / BINS), _x(1 / BINS) - _x(0), count / most, "") for low, count in below.items()),
        *(_curve(curve, at, found) if curve else ()),
        f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{_y(0)}"/>',
        _label(at, TOP - 8, f"threshold {threshold:g}", threshold > 0.5),
    ]
    if curve is None:
        return _svg("Candidate pairs by Jaccard similarity", parts)
    title = f"Probability that two documents become a candidate pair, by similarity: {found:.4f} at {threshold:g}"
    return _svg(title, parts)


def _curve(curve: SCurve, at: float, found: float) -> Iterator[str]:
    """The line, the area below it, and a dot at the threshold."""
    similarity = np.linspace(0, 1, 201)
    probability = np.asarray(curve.probability(similarity))
    points = " ".join(
        f"{_x(s):.1f},{_y(p):.1f}" for s, p in zip(similarity.tolist(), probability.tolist(), strict=True)
    )
    yield f'<polygon class="area" points="{LEFT},{_y(0)} {points} {_x(1)},{_y(0)}"/>'
    yield f'<polyline class="line" points="{points}"/>'
    yield f'<circle class="dot" cx="{at:.1f}" cy="{_y(found):.1f}" r="4"/>'


def similarity_picture(counts: Mapping[str, Any], threshold: float, measure: str) -> str:
    """Dropped documents by similarity with the kept one. Similarity 1 has a bar of its own, with its count.

    A bar that would make the others flat is drawn broken, without a scale.
    """
    contained = measure == "containment"
    alike, of = ("containment", "Containment in") if contained else ("similarity", "Jaccard similarity with")
    below = _below_one(counts)
    first = min([*below, int(threshold * BINS + 1e-9), BINS - 5])
    most = max([*below.values(), 1 if below else counts["one"], 1])
    wide = (WIDTH - LEFT - RIGHT - APART) / (BINS - first)
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
    step = next(step for step in STEPS if (BINS - first) / step <= MOST_TICKS)
    scale = (WIDTH - LEFT - RIGHT - APART) / (WIDTH - LEFT - RIGHT) / (BINS - first)
    ticks = [((at - first) * scale, f"{at / BINS:.2f}") for at in range(-(-first // step) * step, BINS, step)]
    left, width = WIDTH - RIGHT - APART * 0.7, APART * 0.7
    one = [_bar("bar one", left, width, min(counts["one"] / most, 1), f"1: {counts['one']:,}")]
    if counts["one"] > most:
        across = f"l{width / 2 + 3:.0f} -8"
        one.append(f'<path class="break" d="M{left - 3:.0f} {TOP + 22} {across} v8 {across}"/>')
    one.append(f'<text class="note" x="{WIDTH - RIGHT}" y="{TOP - 6}" text-anchor="end">{counts["one"]:,}</text>')
    ticks.append(((left + width / 2 - LEFT) / (WIDTH - LEFT - RIGHT), "1"))
    levels = [_level(_y(part), _brief(most * part)) for part in ((0, 0.5, 1) if most > 1 else (0, 1))]
    title = f"Dropped documents by {alike} {of.split()[-1]} the kept one: {counts['one']:,} of {alike} 1"
    return _svg(title, [_axes(f"{of} the kept document", ticks), *levels, *bars, *one])


def _brief(count: float) -> str:
    """A count of few characters.

    >>> [_brief(count) for count in (9.5, 2500, 1_250_000, 3e9)]
    ['10', '2,500', '1.2 M', '3,000.0 M']
    """
    return f"{count:,.0f}" if count < 100_000 else f"{count / 1e6:,.1f} M"


def _below_one(counts: Mapping[str, Any]) -> dict[int, int]:
    """Counts by hundredths of similarity."""
    return {round(float(low) * BINS): count for low, count in counts["below_one"].items()}


def _bar(kind: str, left: float, wide: float, part: float, name: str) -> str:
    tall = max((_y(0) - TOP) * part, 1) if part else 0
    return (
        f'<rect class="{kind}" x="{left + 0.5:.1f}" y="{_y(0) - tall:.1f}" width="{max(wide - 1, 1):.1f}"'
        f' height="{tall:.1f}">{f"<title>{name}</title>" if name else ""}</rect>'
    )


def _svg(title: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg>'


def _x(part: float) -> float:
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def _y(part: float) -> float:
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)


def _axes(name: str, ticks: Sequence[tuple[float, str]]) -> str:
    marks = "".join(
        f'<text x="{_x(at):.1f}" y="{_y(0) + 16:.1f}" text-anchor="middle">{label}</text>' for at, label in ticks
    )
    middle = (LEFT + WIDTH - RIGHT) / 2
    return f'{marks}<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle" class="name">{name}</text>'


def _level(y: float, label: str) -> str:
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    )


def _label(x: float, y: float, text: str, left: bool) -> str:
    place, anchor = (x - 8, "end") if left else (x + 8, "start")
    return f'<text class="note" x="{place:.1f}" y="{y}" text-anchor="{anchor}">{text}</text>'
