"""Cutting a document's text into pieces with the same tokens as the whole.

A cut splits no well-formed UTF-8 sequence and, for words, no token: it is not between two code points of class *word*.
Tokens of characters never span code points. If a separator adjoins the cut, the space in front of the later piece's
first character belongs to the document, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.unicode_table import BLOCK_BITS, SEPARATOR, WORD, unicode_table
from gpulsh.params import PLAIN, Reading, Unit

Read = Callable[[int, int], NDArray[np.uint8]]  # the document's bytes [low, high)

FIRST_WINDOW, LAST_WINDOW, GROWTH = 64, 1 << 20, 16  # bytes looked at together
CONTEXT = 4  # no sequence is longer
# Bytes of a sequence, its least and greatest lead byte, its least code point (Unicode, table 3-7).
SEQUENCES = ((2, 0xC2, 0xDF, 0x80), (3, 0xE0, 0xEF, 0x800), (4, 0xF0, 0xF4, 0x10000))


class Piece(NamedTuple):
    """Bytes [start, stop) of a document."""

    start: int
    stop: int
    spaced: bool  # a separator adjoins `start`, on either side; False at the document's start


def cut_pieces(read: Read, length: int, unit: Unit, piece_bytes: int, reading: Reading = PLAIN) -> Iterator[Piece]:
    """A document of `length` bytes as pieces of at most `piece_bytes`, longer only where one token is."""
    start, spaced = 0, False
    while start < length:
        limit = start + piece_bytes
        cut = None
        if limit < length:
            cut = _nearest_cut(read, length, start + 1, limit + 1, unit, reading, last=True)
            cut = cut or _nearest_cut(read, length, limit + 1, length, unit, reading, last=False)
        stop, spaced_next = cut or (length, False)
        yield Piece(start, stop, spaced)
        start, spaced = stop, spaced_next


def _nearest_cut(
    read: Read, length: int, low: int, high: int, unit: Unit, reading: Reading, *, last: bool
) -> tuple[int, bool] | None:
    """The last or the first cut in [low, high), and whether a separator adjoins it."""
    window = FIRST_WINDOW
    while low < high:
        begin, end = (max(low, high - window), high) if last else (low, min(low + window, high))
        places, spaced = _cuts(read, length, begin, end, unit, reading)
        if len(places):
            nearest = -1 if last else 0
            return int(places[nearest]), bool(spaced[nearest])
        low, high = (low, begin) if last else (end, high)
        window = min(window * GROWTH, LAST_WINDOW)
    return None


def _cuts(
    read: Read, length: int, low: int, high: int, unit: Unit, reading: Reading
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The cuts in [low, high), 0 < low, and whether a separator adjoins each."""
    begin = max(low - CONTEXT, 0)
    text = read(begin, min(high + CONTEXT, length))
    classes, inside = classes_of(text, reading)
    here = slice(low - begin, high - begin)
    before, behind = classes[low - begin - 1 : high - begin - 1], classes[here]
    allowed = ~inside[here]
    if unit == "word":
        allowed &= (before != WORD) | (behind != WORD)
    places = np.flatnonzero(allowed)
    return low + places, ((before == SEPARATOR) | (behind == SEPARATOR))[places]


def classes_of(text: NDArray[np.uint8], reading: Reading = PLAIN) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The class of each byte's code point, and whether the code point began at an earlier byte.

    A byte in no well-formed sequence is a separator, also the rest of a sequence that is cut at either end.
    """
    classes = _ascii_classes(reading)[text]
    inside = np.zeros(len(text), np.bool_)
    if not len(text) or text.max() < 0x80:
        return classes, inside
    table = unicode_table(reading)
    for size, least, greatest, first in SEQUENCES:
        at = np.flatnonzero((text >= least) & (text <= greatest))
        at = at[at <= len(text) - size]
        code = text[at].astype(np.uint32) & (0x7F >> size)
        valid = np.ones(len(at), np.bool_)
        for i in range(1, size):
            byte = text[at + i]
            valid &= byte & 0xC0 == 0x80
            code = code << 6 | byte & 0x3F
        valid &= (code >= first) & (code <= 0x10FFFF) & ((code < 0xD800) | (code >= 0xE000))
        at, code = at[valid], code[valid]
        block = table.stage1[code >> BLOCK_BITS].astype(np.intp)
        found = table.stage2[block << BLOCK_BITS | code & (1 << BLOCK_BITS) - 1] & 3
        for i in range(size):
            classes[at + i] = found
            inside[at + i] = i > 0
    return classes, inside


@cache
def _ascii_classes(reading: Reading) -> NDArray[np.uint8]:
    """The class of each byte below 0x80; separators above."""
    table = unicode_table(reading)
    entries = table.stage2[int(table.stage1[0]) << BLOCK_BITS :][:0x80]
    return np.concatenate([entries & 3, np.full(0x80, SEPARATOR)]).astype(np.uint8)
