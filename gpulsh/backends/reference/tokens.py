"""Tokens by the definition in `protocol`, a code point at a time, and the items that shingles are made of."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from gpulsh.arrays import TextBatch, Tokens
from gpulsh.backends.reference.hashing import shingle_hash, token_hash
from gpulsh.backends.reference.unique import from_rows, rows_of
from gpulsh.backends.unicode_table import BLOCK_BITS, SEPARATOR, SINGLE, unicode_table
from gpulsh.params import ITEM_TOKENS, PLAIN, Reading, Shingling, Unit
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


def word_hashes(document: list[list[int]], shingling: Shingling, keys: EvidenceKeys | None) -> list[int]:
    """Hashes of a document's tokens, or of the items that begin with stop words."""
    if not shingling.by_words:
        return [token_hash(token, keys) for token in document]
    reading = shingling.reading._replace(case=True)
    listed = [code_points(word.encode(), "word", reading) for word in shingling.stop_words]
    stop = {tuple(word[0]) for word in listed if len(word) == 1}
    is_stop = [tuple(classify(point, reading)[1] for point in token) in stop for token in document]
    hashes = [token_hash(_stem(token, shingling), keys) for token in document]
    if shingling.anchor is None:
        return [hashed for hashed, left_out in zip(hashes, is_stop, strict=True) if not left_out]
    starts = range(len(document) - ITEM_TOKENS + 1)
    return [shingle_hash(hashes[i : i + ITEM_TOKENS], keys) for i in starts if is_stop[i]]


def _stem(token: list[int], shingling: Shingling) -> list[int]:
    if shingling.stems is None:
        return token
    stem = [ord(character) for character in shingling.stems("".join(map(chr, token)))]
    whole = code_points("".join(map(chr, stem)).encode(), "word", shingling.reading) == [stem]
    return stem if whole else token
