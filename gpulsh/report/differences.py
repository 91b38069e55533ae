"""What differs between two texts, by the tokens that the method compares: words, or characters, folded.

So texts of the same tokens do not differ, whatever their case and punctuation, and between two Chinese sentences the
characters are marked that differ, not the sentences.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from gpulsh.backends.unicode_table import BLOCK_BITS, SEPARATOR, WORD, unicode_table
from gpulsh.facts import Facts
from gpulsh.params import Folding, NormalForm, Reading, Shingling

CUT = "…"  # at the ends of an excerpt
SPACE = " "


class Piece(NamedTuple):
    """A piece of a text as it is written, and the token that it is to the method, None where it is none."""

    text: str
    token: str | None


def pieces(text: str, shingling: Shingling, form: NormalForm | None = None) -> list[Piece]:
    """The whole text in pieces; each is normalized by itself.

    >>> [piece.token for piece in pieces("One, 二三!", Shingling())]
    ['one', None, '二', '三', None]
    """
    runs: list[tuple[str, int]] = []
    reading = shingling.reading
    known = {character: _classified(character, reading) for character in set(text)}
    for klass, alike in groupby(text, lambda character: known[character][0]):
        if klass == SEPARATOR or (klass == WORD and shingling.unit == "word"):
            runs.append(("".join(alike), klass))
        else:
            runs.extend((character, klass) for character in alike)
    # Of characters, those between two others that are none are a space.
    between = SPACE if shingling.unit == "char" else None
    return [
        Piece(written, _folded(written, form, reading) if form else "".join(known[one][1] for one in written))
        if klass != SEPARATOR
        else Piece(written, between if 0 < place < len(runs) - 1 else None)
        for place, (written, klass) in enumerate(runs)
    ]


def differences(
    texts: Sequence[str], shingling: Shingling, form: NormalForm | None = None
) -> list[list[tuple[bool, str]]]:
    """Each of two texts in pieces, each with whether it differs from the other text, where that is known.

    >>> differences(["Kept as one.", "kept, as two"], Shingling())
    [[(False, 'Kept as '), (True, 'one'), (False, '.')], [(False, 'kept, as '), (True, 'two')]]
    """
    if not all(texts):
        return [[(False, text)] if text else [] for text in texts]
    cut = [pieces(text, shingling, form) for text in texts]
    one, other = tokens = [[piece.token for piece in side if piece.token is not None] for side in cut]
    differs = [[False] * len(side) for side in tokens]
    is_cut = any(text.endswith(CUT) for text in texts)
    for kind, *bounds in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        for side, (start, stop) in enumerate((bounds[:2], bounds[2:])):
            # What one text shows after the other has been cut may well stand there too.
            if kind != "equal" and not (is_cut and stop == len(tokens[side])):
                differs[side][start:stop] = [True] * (stop - start)
    return [list(_runs(*side)) for side in zip(cut, differs, strict=True)]


def marked(texts: Sequence[str], parameters: Facts) -> list[list[tuple[bool, str]]]:
    """The same by the parameters of a run, as its report tells them."""
    folding = Folding(**parameters["folding"])
    return differences(texts, Shingling(**parameters["shingling"]).under(folding), folding.form)


def _runs(found: Sequence[Piece], differs: Sequence[bool]) -> Iterator[tuple[bool, str]]:
    """The pieces joined as far as they are alike; what stands between two differing tokens goes with them."""
    told, place = [], 0
    for piece in found:
        if piece.token is None:
            told.append(0 < place < len(differs) and differs[place - 1] and differs[place])
        else:
            told.append(differs[place])
            place += 1
    for is_other, run in groupby(zip(told, found, strict=True), lambda one: one[0]):
        yield is_other, "".join(piece.text for _, piece in run)


def _folded(written: str, form: NormalForm, reading: Reading) -> str:
    return "".join(_classified(character, reading)[1] for character in unicodedata.normalize(form, written))


def _classified(character: str, reading: Reading) -> tuple[int, str]:
    """Its class, and what it is folded to."""
    table, code = unicode_table(reading), ord(character)
    entry = int(table.stage2[(int(table.stage1[code >> BLOCK_BITS]) << BLOCK_BITS) + code % (1 << BLOCK_BITS)])
    return entry & 3, chr(code + (entry >> 2))
