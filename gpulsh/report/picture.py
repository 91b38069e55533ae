"""Two pictures of the page as SVG without a library: what the banding finds, and how similar dropped documents are.

Colours and fonts are the page's own, by class, so that they follow light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpulsh.facts import Facts
from gpulsh.theory import SCurve

BINS = 100  # of similarity, from 0 to 1
WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 16, 40  # margins


def curve_picture(bands: int, rows: int, threshold: float) -> str:
    """The banding's S-curve, with the threshold of the run and the probability there."""
    curve = SCurve(bands=bands, rows=rows)
    similarity = np.linspace(0, 1, 201)
    probability = np.asarray(curve.probability(similarity))
    points = " ".join(
        f"{_x(s):.1f},{_y(p):.1f}" for s, p in zip(similarity.tolist(), probability.tolist(), strict=True)
    )
    at, found = _x(threshold), float(curve.probability(threshold))
    parts = [
        _axes("Jaccard similarity", [(step / 5, f"{step / 5:.1f}") for step in range(6)]),
        *(_level(_y(step / 4), f"{step / 4:g}") for step in range(5)),
        f'<polygon class="area" points="{LEFT},{_y(0)} {points} {_x(1)},{_y(0)}"/>',
        f'<polyline class="line" points="{points}"/>',
        f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{_y(0)}"/>',
        f'<circle class="dot" cx="{at:.1f}" cy="{_y(found):.1f}" r="4"/>',
        _label(at, _y(0.06), f"threshold {threshold:g}", threshold > 0.5),
    ]
    title = f"Probability that two documents become a candidate pair, by similarity: {found:.4f} at {threshold:g}"
    return _svg(title, parts)


def similarity_picture(counts: Facts, threshold: float, measure: str) -> str:
    """Dropped documents by similarity with the kept one; those of similarity 1 are a bar of their own."""
    contained = measure == "containment"
    alike, of = ("containment", "Containment in") if contained else ("similarity", "Jaccard similarity with")
    below = {round(float(low) * BINS): count for low, count in counts["below_one"].items()}
    first = min([*below, int(threshold * BINS + 1e-9), BINS - 5])
    shown = [*(below.get(at, 0) for at in range(first, BINS)), counts["one"]]
    most = max([*shown, 1])
    low, step = first / BINS, (WIDTH - LEFT - RIGHT) / len(shown)
    bars = []
    for place, count in enumerate(shown):
        if count:
            tall = max((_y(0) - TOP) * count / most, 1)
            kind = "bar one" if place == len(shown) - 1 else "bar"
            name = "1" if place == len(shown) - 1 else f"{low + place / BINS:.2f} to {low + (place + 1) / BINS:.2f}"
            bars.append(
                f'<rect class="{kind}" x="{LEFT + place * step + 0.5:.1f}" y="{_y(0) - tall:.1f}" '
                f'width="{max(step - 1, 1):.1f}" height="{tall:.1f}"><title>{name}: {count:,}</title></rect>'
            )
    every = max(len(shown) // 6, 1)
    ticks = [
        (place / len(shown), f"{low + place / BINS:.2f}") for place in range(0, len(shown) - every // 2 - 1, every)
    ]
    ticks.append(((len(shown) - 0.5) / len(shown), "1"))
    levels = [_level(_y(part), f"{most * part:,.0f}") for part in ((0, 0.5, 1) if most > 1 else (0, 1))]
    title = f"Dropped documents by {alike} {of.split()[-1]} the kept one: {counts['one']:,} of {alike} 1"
    return _svg(title, [_axes(f"{of} the kept document", ticks), *levels, *bars])


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
