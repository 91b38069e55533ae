"""Texts: their bytes, tokens a code point at a time, shingles as slices of tokens, and exact hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Numbers, TextBatch, Tokens, Words
from gpulsh.backends.protocol import Keys
from gpulsh.backends.reference.hashing import (
    exact_hash,
    karp_rabin_hash,
    packed_token,
    rabin_hash,
    shingle_hash,
    token_hash,
    window_hash,
)
from gpulsh.backends.reference.rows import from_rows, labelled, rows_of, unique
from gpulsh.backends.unicode_table import BLOCK_BITS, SEPARATOR, SINGLE, unicode_table
from gpulsh.params import ITEM_TOKENS, PLAIN, Hash, Reading, Shingling, Unit
from gpulsh.ragged import expand_ranges
from gpulsh.secret import EvidenceKeys

SPACE = 0x20


def gather(values: Array, begin: Array, end: Array) -> TextBatch:
    rows = [bytes(values[start:stop]) for start, stop in zip(begin.tolist(), end.tolist(), strict=True)]
    offset = np.array([sum(map(len, rows[:row])) for row in range(len(rows) + 1)], np.int64)
    return TextBatch(np.frombuffer(b"".join(rows), np.uint8), offset)


@lru_cache(maxsize=1 << 16)
def classify(code_point: int, reading: Reading = PLAIN) -> tuple[int, int]:
    """(class, folded code point)."""
    table = unicode_table(reading)
    block = int(table.stage1[code_point >> BLOCK_BITS])
    entry = int(table.stage2[(block << BLOCK_BITS) + (code_point & (1 << BLOCK_BITS) - 1)])
    return entry & 3, code_point + (entry >> 2)


@dataclass
class Token:
    """A token: where it begins and ends in the bytes of its document, and its folded code points."""

    start: int
    stop: int
    points: list[int]


def tokens_of(document: bytes, unit: Unit, reading: Reading = PLAIN) -> list[Token]:
    """All tokens, a character at a time."""
    found: list[Token] = []
    gap = inside = False  # separators precede; a word is open at the end of `found`
    stop = 0
    # Each byte in no character becomes a surrogate, which separates as U+FFFD does.
    for character in document.decode("utf-8", "surrogateescape"):
        start, stop = stop, stop + len(character.encode("utf-8", "surrogateescape"))
        klass, folded = classify(ord(character), reading)
        if klass == SEPARATOR:
            gap, inside = True, False
            continue
        if unit == "word" and klass != SINGLE and inside:
            found[-1].stop = stop
            found[-1].points.append(folded)
            continue
        if unit == "char" and gap and found:
            found.append(Token(found[-1].stop, start, [SPACE]))
        found.append(Token(start, stop, [folded]))
        gap, inside = False, klass != SINGLE
    return found


def code_points(document: bytes, unit: Unit, reading: Reading = PLAIN) -> list[list[int]]:
    """Each token as its folded code points."""
    return [token.points for token in tokens_of(document, unit, reading)]


def documents(text: TextBatch, shingling: Shingling) -> Iterator[list[list[int]]]:
    """The tokens of each document, as their folded code points."""
    return (code_points(row.tobytes(), shingling.unit, shingling.reading) for row in rows_of(text))


def tokens(text: TextBatch, shingling: Shingling, keys: Keys = None) -> Tokens:
    found = from_rows([token_hash(token, keys) for token in document] for document in documents(text, shingling))
    return Tokens(found.values, found.offset)


def token_bounds(text: TextBatch, shingling: Shingling, row: Numbers, token: Numbers) -> Numbers:
    read = [tokens_of(document.tobytes(), shingling.unit, shingling.reading) for document in rows_of(text)]
    found = [read[number][place] for number, place in zip(row.tolist(), token.tolist(), strict=True)]
    return np.array([(one.start, one.stop) for one in found], np.int64).reshape(-1, 2)


def word_hashes(document: list[list[int]], shingling: Shingling, keys: Keys) -> list[int]:
    """Hashes of a document's tokens, or of the items that begin with stop words."""
    if not shingling.changes_words:
        return [token_hash(token, keys) for token in document]
    reading = shingling.reading._replace(case=True)
    listed = [code_points(word.encode("utf-8", "surrogatepass"), "word", reading) for word in shingling.stop_words]
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


def shingles(tokens: Tokens, size: int, keys: Keys = None) -> Fingerprints:
    return from_rows([shingle_hash(one, keys) for one in _shingles(row.tolist(), size)] for row in rows_of(tokens))


def window_hashes(
    tokens: Tokens, begin: Numbers, windows: Numbers, size: int, keys: EvidenceKeys
) -> tuple[Words, Words]:
    values = tokens.values.tolist()
    given = [values[at : at + size] for at in expand_ranges(begin, windows).tolist()]
    public, secret = (np.array([window_hash(window, how) for window in given], np.uint64) for how in (None, keys))
    return public, secret


def shingle(text: TextBatch, shingling: Shingling, keys: Keys = None) -> Fingerprints:
    rows = from_rows(unlabelled(text, shingling, keys))
    return labelled(rows) if shingling.labels else rows


def unlabelled(text: TextBatch, shingling: Shingling, keys: Keys = None) -> list[list[int]]:
    """The fingerprints of each document before their labels."""
    hashes: dict[Hash, Callable[[list[int]], int]] = {
        "mix64": lambda shingle: shingle_hash(shingle, keys),
        "rabin": rabin_hash,
        "karp_rabin": lambda shingle: karp_rabin_hash(shingle, keys),
    }
    given = [word_hashes(document, shingling, keys) for document in documents(text, shingling)]
    return [list(map(hashes[shingling.hash], _shingles(row, shingling.size))) for row in given]


def shingle_part(text: TextBatch, shingling: Shingling, part: int, parts: int, keys: Keys = None) -> Fingerprints:
    whole = unlabelled(text, shingling, keys)
    rows = from_rows([x for x in row if (x * parts) >> 64 == part] for row in whole)
    return unique(labelled(rows) if shingling.labels else rows)


def exact_hashes(text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> tuple[Words, Numbers]:
    packed = [[packed_token(token, keys) for token in document] for document in documents(text, shingling)]
    hashes = np.array([exact_hash(document, keys) for document in packed], np.uint64).reshape(len(text), 2)
    return hashes, np.array(list(map(len, packed)), np.int64)


def _shingles(document: list[int], size: int) -> list[list[int]]:
    if not document:
        return []
    return [document[i : i + size] for i in range(max(len(document) - size, 0) + 1)]
