"""Cutting a document's text into pieces with the same tokens as the whole.

A cut splits no well-formed UTF-8 sequence and, for words, no token: it is not between two code points of class *word*.
Tokens of characters never span code points. If a separator adjoins the cut, the space in front of the later piece's
first character belongs to the document, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.unicode_table import SEPARATOR, WORD, unicode_table
from gpulsh.params import PLAIN, Reading, Unit

Read = Callable[[int, int], NDArray[np.uint8]]  # the document's bytes [low, high)

FIRST_WINDOW, LAST_WINDOW, GROWTH = 64, 1 << 20, 16  # bytes searched together
CONTEXT = 4  # no sequence is longer


class Piece(NamedTuple):
    """Bytes [start, stop) of a document."""

    start: int
    stop: int
    spaced: bool  # a separator adjoins `start`, on either side; False at the document's start


def cut_pieces(read: Read, length: int, unit: Unit, piece_bytes: int, reading: Reading = PLAIN) -> Iterator[Piece]:
    """A document of `length` bytes as pieces of at most `piece_bytes`, longer only where one token is."""

    def cuts(low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The cuts in [low, high), 0 < low, and whether a separator adjoins each."""
        begin = max(low - CONTEXT, 0)
        starts, classes = _code_points(read(begin, min(high + CONTEXT, length)).tobytes(), reading)
        places, before, behind = begin + starts[1:], classes[:-1], classes[1:]
        allowed = (places >= low) & (places < high)
        if unit == "word":
            allowed &= (before != WORD) | (behind != WORD)
        return places[allowed], ((before == SEPARATOR) | (behind == SEPARATOR))[allowed]

    def nearest_cut(low: int, high: int, *, last: bool) -> tuple[int, bool] | None:
        """The last or the first cut in [low, high)."""
        window = FIRST_WINDOW
        while low < high:
            begin, end = (max(low, high - window), high) if last else (low, min(low + window, high))
            places, spaced = cuts(begin, end)
            if len(places):
                nearest = -1 if last else 0
                return int(places[nearest]), bool(spaced[nearest])
            low, high = (low, begin) if last else (end, high)
            window = min(window * GROWTH, LAST_WINDOW)
        return None

    start, spaced = 0, False
    while start < length:
        limit = start + piece_bytes
        cut = None
        if limit < length:
            cut = nearest_cut(start + 1, limit + 1, last=True) or nearest_cut(limit + 1, length, last=False)
        stop, spaced_next = cut or (length, False)
        yield Piece(start, stop, spaced)
        start, spaced = stop, spaced_next


def _code_points(text: bytes, reading: Reading) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each code point begins, and its class; a byte in no well-formed sequence is a separator of its own."""
    # Python reads such bytes as surrogates, which are separators in the table.
    code = np.frombuffer(text.decode("utf-8", "surrogateescape").encode("utf-32-le", "surrogatepass"), np.uint32)
    escaped = code >> 8 == 0xDC
    sizes = np.where(escaped, 1, 1 + (code >= 0x80).astype(np.int64) + (code >= 0x800) + (code >= 0x10000))
    classes = (unicode_table(reading).entries(code) & 3).astype(np.uint8)
    return np.cumsum(sizes) - sizes, classes
