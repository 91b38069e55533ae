"""Draws the S-curve of a banding with the characters of a terminal, alone or over the pairs that it is to find."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.theory import SCurve

HEIGHT = 16  # lines of the drawing, its axis aside
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "    #####"  # for an output whose encoding lacks blocks
MARK = "*"  # the curve, where bars are of something else


def drawing(curve: SCurve, counts: Sequence[int] | None = None) -> str | None:
    """What `draw` draws as it fits standard output; None where that is no terminal."""
    if not sys.stdout.isatty():
        return None
    columns = shutil.get_terminal_size().columns
    blocks = BLOCKS if _writable(BLOCKS) else ASCII_BLOCKS
    return draw(curve, width=min(columns - 8, 80), height=HEIGHT, blocks=blocks, counts=counts)


def draw(curve: SCurve, *, width: int, height: int, blocks: str = BLOCKS, counts: Sequence[int] | None = None) -> str:
    """The area below the curve: a column of `blocks` a similarity, from 0 at the left to 1 at the right.

    `blocks` holds nine characters, from empty to full, that fill a cell by eighths. With `counts`, of equal steps of
    similarity, the area is theirs, on a scale of logarithms, and the curve is marks over it.
    """
    width, height = max(width, 11), max(height, 2)
    probability = [float(curve.probability(column / (width - 1))) for column in range(width)]
    filled = probability if counts is None else _shares(counts, width)
    eighths = [round(share * height * 8) for share in filled]
    marked = [min(int((1 - p) * height), height - 1) for p in probability] if counts is not None else [-1] * width
    lines = []
    for row in range(height):
        floor = (height - 1 - row) * 8
        label = {0: "1.0", height // 2: "0.5"}.get(row, "")
        cells = (
            MARK if mark == row else blocks[min(max(e - floor, 0), 8)] for e, mark in zip(eighths, marked, strict=True)
        )
        lines.append(f"{label:>4} |" + "".join(cells).rstrip())
    lines.append(f"{'0.0':>4} +" + "-" * width)
    lines.append(" " * 6 + "0.0" + "similarity".center(width - 6) + "1.0")
    return "\n".join(lines)


def _shares(counts: Sequence[int], width: int) -> list[float]:
    most = math.log1p(max([*counts, 1]))
    return [math.log1p(counts[column * len(counts) // width]) / most for column in range(width)]


def _writable(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
