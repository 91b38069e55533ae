"""Short pieces of documents for the report: read again from their files, cut where two differ, differences marked.

Two texts differ in the tokens that the method compares: words or characters, folded. So texts of the same tokens do
not differ, even if their punctuation does. In Chinese sentences single characters are marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.parallel import pipelined_map
from gpulsh.backends.unicode_table import SEPARATOR, WORD, unicode_table
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import texts_of_rows
from gpulsh.io.normal_form import normal_form
from gpulsh.params import Folding, NormalForm, Reading, Shingling

FileRow = tuple[int, int]  # number of the file, row in it
# Of some places: at most so many bytes of each text that need not be read again.
Beginnings = Callable[[Collection[FileRow], int], Mapping[FileRow, bytes]]

READERS = 4  # files that are read at the same time, at most
READ_BYTES = 1 << 16  # read of a document
SHOWN_CHARACTERS = 480  # characters of a document
INDENT = 40  # characters of white space at most, in a line or before it
LEAD_CHARACTERS = 100  # characters before the first difference
ELLIPSIS = "…"  # at the ends of an excerpt


# --- reading ---


def read_texts(
    files: Sequence[File], columns: Columns, places: Collection[FileRow], threads: int = 1
) -> Mapping[FileRow, str]:
    """The beginnings of the documents at `places`; each file is read only as far as needed, some at the same time."""

    def read(group: tuple[int, list[int]]) -> dict[FileRow, str]:
        number, rows = group
        found = texts_of_rows(files[number], columns.text, np.array(rows, np.int64))
        return {
            (number, row): bytes(text[:READ_BYTES]).decode("utf-8", "replace")
            for row, text in zip(rows, found, strict=True)
        }

    by_file = groupby(sorted(set(places)), lambda place: place[0])
    wanted = [(number, [row for _, row in group]) for number, group in by_file]
    readers = min(READERS, threads, len(wanted))
    parts = pipelined_map(wanted, [read] * readers) if readers > 1 else map(read, wanted)
    return {place: text for part in parts for place, text in part.items()}


def texts_in_memory(places: Collection[FileRow], known: Iterable[Beginnings]) -> dict[FileRow, str]:
    """The beginnings of the documents at `places` that need not be read again."""
    found: dict[FileRow, bytes] = {}
    for beginnings in known:
        found |= beginnings(set(places) - found.keys(), READ_BYTES)
    return {place: text.decode("utf-8", "replace") for place, text in found.items()}


# --- cutting ---


def excerpts(one: str, other: str) -> list[str]:
    """The parts of two texts around their first difference, white space aside; if they are equal, their beginnings.

    >>> excerpts("same " * 100 + "old end", "same " * 100 + "new end")[0][-12:]
    'same old end'
    """
    lines = [" ".join(text.split()) for text in (one, other)]
    same = next((at for at, (a, b) in enumerate(zip(*lines, strict=False)) if a != b), min(map(len, lines)))
    longest = max(map(len, lines))
    start = max(min(same - LEAD_CHARACTERS, longest - SHOWN_CHARACTERS), 0) if same < longest else 0
    if start:  # at the start of a word, unless the word is long: then `find` gives -1
        start = lines[0].find(" ", start, start + LEAD_CHARACTERS // 2) + 1 or start
    return [_excerpt(text, line, start) for text, line in zip((one, other), lines, strict=True)]


def _excerpt(text: str, line: str, start: int) -> str:
    """The part of the text that begins at `start` of `line`, the same text on one line."""
    stop = start + SHOWN_CHARACTERS
    if stop < len(line):  # at the end of a word, unless the word is long
        stop = start + max(line[start:stop].rfind(" "), SHOWN_CHARACTERS - 40)

    def position(at: int) -> int:
        """The position in the text of character `at` of the text on one line."""
        for word in re.finditer(r"\S+", text):
            if at <= len(word[0]):
                return word.start() + at
            at -= len(word[0]) + 1
        return len(text)

    def gap(space: re.Match[str]) -> str:
        """White space of two characters or more, with at most one empty line."""
        *lines, indent = space[0].split("\n")
        return "\n" * min(len(lines), 2) + indent[:INDENT]

    begin = position(min(start + line.startswith(" ", start), len(line)))
    piece = re.sub(r"\s{2,}", gap, text[begin : position(stop)].strip())
    return (ELLIPSIS if start else "") + piece + (ELLIPSIS if stop < len(line) else "")


# --- marking ---


class Piece(NamedTuple):
    """A piece of a text as written, and its token; None for a separator."""

    text: str
    token: str | None


def pieces(text: str, shingling: Shingling, form: NormalForm | None = None) -> list[Piece]:
    """The whole text in pieces, each normalized by itself.

    >>> [piece.token for piece in pieces("One, 二三!", Shingling())]
    ['one', None, '二', '三', None]
    """
    kinds, folded = _kinds_and_folded(text, shingling.reading)
    # Separators are one piece, and so are the characters of a word.
    joins = (kinds == SEPARATOR) | ((kinds == WORD) & (shingling.unit == "word"))
    starts = np.flatnonzero(~joins | (np.diff(kinds, prepend=-1) != 0))
    found = []
    for (start, stop), kind in zip(pairwise([*starts.tolist(), len(text)]), kinds[starts].tolist(), strict=True):
        written = text[start:stop]
        if kind == SEPARATOR:  # with characters as tokens, separators between two of them count as a space
            found.append(Piece(written, " " if shingling.unit == "char" and start > 0 and stop < len(text) else None))
        elif form:
            found.append(Piece(written, _kinds_and_folded(normal_form(written, form), shingling.reading)[1]))
        else:
            found.append(Piece(written, folded[start:stop]))
    return found


def differences(
    texts: Sequence[str], shingling: Shingling, form: NormalForm | None = None
) -> list[list[tuple[bool, str]]]:
    """Each of two texts in pieces, each with whether it differs from the other text, as far as that is known.

    >>> differences(["Kept as one.", "kept, as two"], Shingling())
    [[(False, 'Kept as '), (True, 'one'), (False, '.')], [(False, 'kept, as '), (True, 'two')]]
    """
    if not all(texts):
        return [[(False, text)] if text else [] for text in texts]
    cut = [pieces(text, shingling, form) for text in texts]
    one, other = tokens = [[piece.token for piece in side if piece.token is not None] for side in cut]
    differs = [[False] * len(side) for side in tokens]
    is_cut = any(text.endswith(ELLIPSIS) for text in texts)
    for kind, *bounds in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        for side, (start, stop) in enumerate((bounds[:2], bounds[2:])):
            # Tokens beyond the end of a cut text may be in its rest.
            if kind != "equal" and not (is_cut and stop == len(tokens[side])):
                differs[side][start:stop] = [True] * (stop - start)
    found: list[list[tuple[bool, str]]] = []
    for parts, flags in zip(cut, differs, strict=True):
        runs, place = [], 0
        for piece in parts:
            if piece.token is None:  # a separator between two differing tokens differs, too
                runs.append((0 < place < len(flags) and flags[place - 1] and flags[place], piece.text))
            else:
                runs.append((flags[place], piece.text))
                place += 1
        found.append([(flag, "".join(text for _, text in run)) for flag, run in groupby(runs, lambda run: run[0])])
    return found


def run_differences(texts: Sequence[str], parameters: Mapping[str, Any]) -> list[list[tuple[bool, str]]]:
    """`differences` by the parameters of a run, as its report has them."""
    folding = Folding(**parameters["folding"])
    return differences(texts, Shingling(**parameters["shingling"]).with_folding(folding), folding.form)


def _kinds_and_folded(text: str, reading: Reading) -> tuple[NDArray[np.int32], str]:
    """The class of each character, and the text with all characters folded."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    entries = unicode_table(reading).entries(codes)
    return entries & 3, (codes + (entries >> 2)).astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
