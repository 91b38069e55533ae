"""Short pieces of the documents that a report shows: read again, cut where two of them differ."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.formats.endings import format_of

Place = tuple[int, int]  # number of the file, row in it

READ_BYTES = 1 << 16  # of a document that is looked at
SHOWN = 480  # characters of a document that are shown
INDENT = 40  # of white space at most, in a line or before it
BEFORE = 100  # of them before the first difference


class AtHand(Protocol):
    """Texts that need not be looked for in their files."""

    def beginning(self, file: int, row: int, most: int) -> bytes | None:
        """At most the first `most` bytes of the text in a row of a file; None where it is not at hand."""


def read_texts(files: Sequence[File], columns: Columns, places: Collection[Place]) -> Mapping[Place, str]:
    """The beginnings of the documents at `places`; a file is read no further than the last of them."""
    found: dict[Place, str] = {}
    for number, group in groupby(sorted(set(places)), lambda place: place[0]):
        rows = np.array([row for _, row in group], np.int64)
        wanted = np.zeros(int(rows[-1]) + 1, np.bool_)
        wanted[rows] = True
        for row, text in _texts(files[number], columns, rows, wanted):
            found[number, row] = text
    return found


def at_once(places: Collection[Place], at_hand: AtHand | None) -> dict[Place, str]:
    """The beginnings of those documents at `places` that are `at_hand`."""
    if at_hand is None:
        return {}
    held = {place: at_hand.beginning(*place, READ_BYTES) for place in sorted(places)}
    return {place: text.decode("utf-8", "replace") for place, text in held.items() if text is not None}


def _texts(file: File, columns: Columns, rows: Numbers, wanted: NDArray[np.bool_]) -> Iterator[tuple[int, str]]:
    left = len(rows)
    for block in format_of(file).read(file, columns, wanted):
        here = rows[(rows >= block.start) & (rows < block.start + len(block.texts))]
        for row, piece in zip(here.tolist(), block.texts.pieces(here - block.start), strict=True):
            yield row, bytes(piece[:READ_BYTES]).decode("utf-8", "replace")
        left -= len(here)
        if not left:
            return


def beside(one: str, other: str) -> list[str]:
    """The part of two texts where they first differ, lines and white space aside; their beginnings where they do not.

    >>> beside("same " * 100 + "old end", "same " * 100 + "new end")[0][-12:]
    'same old end'
    """
    lines = [" ".join(text.split()) for text in (one, other)]
    same = next((at for at, (a, b) in enumerate(zip(*lines, strict=False)) if a != b), min(map(len, lines)))
    longest = max(map(len, lines))
    start = min(same - BEFORE, longest - SHOWN) if same < longest else 0
    start = max(start, 0)
    if start:  # not within a word, unless it is a long one: then `find` gives -1
        start = lines[0].find(" ", start, start + BEFORE // 2) + 1 or start
    return [_cut(text, line, start) for text, line in zip((one, other), lines, strict=True)]


def _cut(text: str, line: str, start: int) -> str:
    """What `line`, the text on one line, has from `start` on, as the text has it."""
    stop = start + SHOWN
    if stop < len(line):  # not within a word, unless it is a long one
        stop = start + max(line[start:stop].rfind(" "), SHOWN - 40)
    begin, end = (_place(text, at) for at in (min(start + line.startswith(" ", start), len(line)), stop))
    piece = re.sub(r"\s+", _gap, text[begin:end].strip())
    return ("…" if start else "") + piece + ("…" if stop < len(line) else "")


def _place(text: str, at: int) -> int:
    """Where a character of the text on one line stands in the text."""
    for word in re.finditer(r"\S+", text):
        if at <= len(word[0]):
            return word.start() + at
        at -= len(word[0]) + 1
    return len(text)


def _gap(space: re.Match[str]) -> str:
    """White space between two words, with at most one empty line."""
    *lines, indent = space[0].split("\n")
    return "\n" * min(len(lines), 2) + indent[:INDENT]
