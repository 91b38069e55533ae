"""Makes text from outside safe to show: names of files and columns, ids, what is in a broken record.

A terminal obeys control characters, and a line with a right-to-left override reads as another. They are shown by their
numbers, as JSON escapes them, so that a JSON line stays what it is; all other text of any script stays as it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from gpulsh.facts import Facts

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories: controls, formats, lone surrogates, ends of lines
JOINERS = "\u200c\u200d"  # of category Cf, which words of many scripts, and emoji, are written with


class _Escapes(dict[int, str]):
    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = character
        if unicodedata.category(character) in HIDDEN and character not in JOINERS:
            units = character.encode("utf-16-be", "surrogatepass")
            shown = "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
        self[code] = shown
        return shown


_ESCAPES = _Escapes()


def printable(text: str) -> str:
    """The text on one line, with nothing in it that a terminal obeys or that moves what stands beside it.

    >>> print(printable("a\\x1b[2Jb \\u202egnp.exe"))
    a\\u001b[2Jb \\u202egnp.exe
    """
    return text if text.isprintable() else text.translate(_ESCAPES)


def place_told(place: Facts) -> str:
    """A document as people name it: by its id where it has one, which is all that is known of some earlier ones.

    >>> place_told({"file": "a.jsonl", "row": 1234, "id": 7})
    'a.jsonl, row 1,234, id 7'
    """
    file, row = place["file"], place["row"]
    told = [file, None if row is None else f"row {row:,}", f"id {place['id']}" if "id" in place else None]
    return printable(", ".join(part for part in told if part is not None))


def cluster_told(cluster: int, files: Sequence[Facts]) -> str:
    """A cluster with its first document, by what a report tells of files.

    >>> cluster_told(12, [{"file": "a.jsonl", "rows": 10}, {"file": "b.jsonl", "rows": 9}])
    'cluster 12 of b.jsonl, row 2'
    """
    row = cluster
    for file in files:
        if row < file["rows"]:
            return f"cluster {cluster} of {place_told({'file': file['file'], 'row': row})}"
        row -= file["rows"]
    return f"cluster {cluster}"


def printable_lines(text: str) -> str:
    """Make each line of a text printable, and keep the lines apart."""
    return "\n".join(map(printable, text.split("\n")))
