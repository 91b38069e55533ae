"""Words and numbers as people read them: text made safe to show, names of documents, amounts with units.

Names of files and columns, ids and broken records come from outside. A terminal obeys control characters, and a
right-to-left override turns a line around. Such characters are shown by their numbers, as JSON escapes them, so that a
JSON line stays valid. All other text of any script stays as it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories: controls, formats, lone surrogates, line and paragraph ends
JOINERS = "\u200c\u200d"  # of category Cf; words of many scripts, and emoji, need them


@lru_cache(1 << 16)
def _shown(character: str) -> str:
    if unicodedata.category(character) not in HIDDEN or character in JOINERS:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def printable(text: str) -> str:
    """The text on one line, without characters that a terminal obeys or that move the text next to it.

    In the locale C, Python reads each byte of a name beyond ASCII as a lone surrogate. They are shown as UTF-8.

    >>> print(printable("a\\x1b[2Jb \\u202egnp.exe"))
    a\\u001b[2Jb \\u202egnp.exe
    """
    if text.isprintable():
        return text
    with suppress(UnicodeEncodeError):  # at a surrogate that is no byte
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    return "".join(map(_shown, text))


def shorten(text: str, most: int) -> str:
    """A text of more than `most` characters without its middle.

    >>> shorten("0123456789", 4)
    '01…89'
    """
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


def printable_lines(text: str) -> str:
    """Make each line of a text printable, and keep the lines apart."""
    return "\n".join(map(printable, text.split("\n")))


def place_name(place: Mapping[str, Any]) -> str:
    """A document's file, row and id, as far as they are known: an index may know only the id.

    >>> place_name({"file": "a.jsonl", "row": 1234, "id": 7})
    'a.jsonl, row 1,234, id 7'
    """
    file, row = place["file"], place["row"]
    parts = [file, None if row is None else f"row {row:,}", f"id {place['id']}" if "id" in place else None]
    return printable(", ".join(part for part in parts if part is not None))


def cluster_name(cluster: int, files: Sequence[Mapping[str, Any]]) -> str:
    """A cluster with its first document; `files` are the report's.

    >>> cluster_name(12, [{"file": "a.jsonl", "rows": 10}, {"file": "b.jsonl", "rows": 9}])
    'cluster 12 (b.jsonl, row 2)'
    """
    row = cluster
    for file in files:
        if row < file["rows"]:
            return f"cluster {cluster} ({place_name({'file': file['file'], 'row': row})})"
        row -= file["rows"]
    return f"cluster {cluster}"


def measure_name(parameters: Mapping[str, Any]) -> str:
    """The measure of a run; Jaccard is the default.

    >>> measure_name({"measure": "containment"})
    'containment'
    """
    return "containment" if parameters.get("measure") == "containment" else "Jaccard"


def size(count: int) -> str:
    """A number of bytes.

    >>> size(1234567), size(999_950)
    ('1.2 MB', '1.0 MB')
    """
    from rich.filesize import decimal

    count = round(count, 1 - (len(f"{count:.0f}") - 1) // 3 * 3)  # else it may be 1,000.0 of a unit
    return decimal(count) if count >= 1000 else f"{count} B"


def interval(least: int, most: int | None) -> str:
    """A class of counts; without `most` it has no upper bound.

    >>> interval(2, 2), interval(5, 8), interval(16385, None)
    ('2', '5–8', '16,385 or more')
    """
    if most is None:
        return f"{least:,} or more"
    return f"{least:,}" if least == most else f"{least:,}–{most:,}"


def percent(part: float, whole: float) -> str:
    """A part of the whole for the width of a bar, in percent."""
    return f"{100 * part / whole:.2f}" if whole else "0"


def duration(seconds: float) -> str:
    """A time in seconds, minutes, hours or days.

    >>> [duration(number) for number in (0.5, 75, 3725, 200_000)]
    ['0.50 s', '75.0 s', '1 h 02 min', '2 d 7 h']
    """
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, rest = divmod(hours, 24)
    if days >= 2:
        return f"{days:,} d {rest} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


def share(part: float, whole: float) -> str:
    """A part of the whole in percent, never 0 or 100 by rounding alone; empty if the whole is 0.

    >>> [share(part, 9999) for part in (0, 1, 3333, 9998, 9999)]
    ['0.0 %', '< 0.1 %', '33.3 %', '> 99.9 %', '100.0 %']
    """
    if not whole:
        return ""
    rounded = f"{100 * part / whole:.1f}"
    if part not in (0, whole):
        rounded = {"0.0": "< 0.1", "100.0": "> 99.9"}.get(rounded, rounded)
    return f"{rounded} %"
