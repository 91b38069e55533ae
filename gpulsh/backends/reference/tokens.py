"""tokens: by the definition in `protocol`, a code point at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from gpulsh.arrays import TextBatch, Tokens
from gpulsh.backends.reference.hashing import token_hash
from gpulsh.backends.reference.unique import from_rows, rows_of
from gpulsh.backends.unicode_table import BLOCK_BITS, SEPARATOR, SINGLE, unicode_table
from gpulsh.params import PLAIN, Reading, Shingling, Unit
from gpulsh.secret import EvidenceKeys

SPACE = 0x20


@lru_cache(maxsize=1 << 16)
def classify(code_point: int, reading: Reading = PLAIN) -> tuple[int, int]:
    """(class, folded code point)."""
    table = unicode_table(reading)
    block = int(table.stage1[code_point >> BLOCK_BITS])
    entry = int(table.stage2[(block << BLOCK_BITS) + (code_point & (1 << BLOCK_BITS) - 1)])
    return entry & 3, code_point + (entry >> 2)


def tokens(text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Tokens:
    found = from_rows([token_hash(token, keys) for token in document] for document in documents(text, shingling))
    return Tokens(found.values, found.offset)


def documents(text: TextBatch, shingling: Shingling) -> Iterator[list[list[int]]]:
    """The tokens of each document, as their folded code points."""
    return (code_points(row.tobytes(), shingling.unit, shingling.reading) for row in rows_of(text))


def code_points(document: bytes, unit: Unit, reading: Reading = PLAIN) -> list[list[int]]:
    """Each token as its folded code points."""
    classified = [classify(ord(character), reading) for character in document.decode("utf-8", "replace")]
    return _words(classified) if unit == "word" else _characters(classified)


def _words(classified: list[tuple[int, int]]) -> list[list[int]]:
    found: list[list[int]] = []
    inside = False  # a word is open at the end of `found`
    for klass, folded in classified:
        if klass == SEPARATOR:
            inside = False
        elif klass == SINGLE:
            found.append([folded])
            inside = False
        elif inside:
            found[-1].append(folded)
        else:
            found.append([folded])
            inside = True
    return found


def _characters(classified: list[tuple[int, int]]) -> list[list[int]]:
    found: list[list[int]] = []
    gap = False  # separators since the last token
    for klass, folded in classified:
        if klass == SEPARATOR:
            gap = True
            continue
        if gap and found:
            found.append([SPACE])
        found.append([folded])
        gap = False
    return found
