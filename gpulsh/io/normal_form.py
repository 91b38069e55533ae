"""Unicode normal forms in linear time, and of long texts piece by piece.

CPython sorts the combining marks after a letter by insertion, which takes a minute for 160 kB of marks out of
order. So gpulsh decomposes and sorts long runs of marks first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Literal

Form = Literal["NFC", "NFKC", "NFD", "NFKD"]
LONG = 256  # marks of a run that is put in order before
PIECE_BYTES = 1 << 20  # of a longer document that are normalized together
HANGUL_JAMO = range(0x1160, 0x1200)  # vowels and finals, which join the consonant before


def normal_form(text: str, form: Form, long: int = LONG) -> str:
    """`unicodedata.normalize(form, text)`.

    >>> normal_form("e\\u0301", "NFC")
    'é'
    """
    pieces, done, compatible = list[str](), 0, "K" in form
    for place in range(long - 1, len(text), long):  # a run of that length has one of these places
        if place < done or not _marks(text[place], compatible):
            continue
        start, stop = place, place + 1
        while start > done and _marks(text[start - 1], compatible):
            start -= 1
        while stop < len(text) and _marks(text[stop], compatible):
            stop += 1
        if stop - start >= long:
            marks = "".join(_marks(character, compatible) for character in text[start:stop])
            pieces += text[done:start], "".join(sorted(marks, key=unicodedata.combining))
            done = stop
    return unicodedata.normalize(form, "".join([*pieces, text[done:]]) if pieces else text)


@lru_cache(maxsize=1 << 14)
def _marks(character: str, compatible: bool) -> str:
    """The combining marks that a character consists of; empty if it begins with none."""
    parts = unicodedata.normalize("NFKD" if compatible else "NFD", character)
    return parts if unicodedata.combining(parts[0]) else ""


def normal_pieces(document: memoryview, form: Form) -> Iterator[tuple[int, bytes]]:
    """A document in UTF-8 in pieces that normalize by themselves: where each ends, and its form, in UTF-8.

    Invalid bytes become U+FFFD. A piece has more than PIECE_BYTES bytes only if it consists of marks.

    >>> list(normal_pieces(memoryview("e\u0301".encode()), "NFC"))
    [(3, b'\xc3\xa9')]
    """
    start = 0
    while start < len(document):
        stop = _boundary(document, start + PIECE_BYTES, form)
        yield stop, normal_bytes(document[start:stop], form)
        start = stop


def normal_bytes(text: memoryview, form: Form) -> bytes:
    """The form of a text in UTF-8, in UTF-8. Invalid bytes become U+FFFD."""
    raw = bytes(text)
    return raw if raw.isascii() else normal_form(raw.decode("utf-8", "replace"), form).encode()


def _boundary(document: memoryview, place: int, form: Form) -> int:
    """The first place from `place` on where a piece may begin."""
    while place < len(document):
        if document[place] & 0xC0 != 0x80:  # a first byte ends what comes before, even an invalid sequence
            character = bytes(document[place : place + 4]).decode("utf-8", "replace")[0]
            if normalizes_alone(character, form):
                return place
        place += 1
    return len(document)


def normalizes_alone(character: str, form: Form) -> bool:
    """Whether no normalization joins a character with the one before, or moves it."""
    first = unicodedata.normalize("NFKD" if "K" in form else "NFD", character)[0]
    joins = unicodedata.combining(first) or ord(first) in HANGUL_JAMO or ord(first) in _second_of_pairs()
    return not joins


@cache
def _second_of_pairs() -> frozenset[int]:
    """The code points that compose with one before them."""
    pairs = (unicodedata.decomposition(chr(point)).split() for point in range(0x110000))
    return frozenset(int(pair[1], 16) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<"))
