"""Unicode normal forms in linear time.

CPython orders the combining marks after a letter by insertion, which takes a minute for a page of 160 kB that consists
of marks in bad order. So long runs of marks are decomposed and put in order before.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Literal

Form = Literal["NFC", "NFKC", "NFD", "NFKD"]
LONG = 256  # marks of a run that is put in order before


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
