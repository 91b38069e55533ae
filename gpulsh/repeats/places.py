"""From places of tokens to bytes of the original texts.

`Backend.token_bounds` knows the bytes of the text that a backend reads: the original, or its normal form. For a normal
form, the original is cut into stretches that normalize independently. A stretch begins with a character that no
normalization joins with the one before. A bound within a stretch, which is rare, moves inwards to one of its ends, so a
span never takes bytes of another token.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, on_host
from gpulsh.io.normal_form import normal_form
from gpulsh.io.rows import batch_cuts, normalized
from gpulsh.params import Folding, NormalForm
from gpulsh.ragged import distinct, offsets
from gpulsh.repeats.byte_text import character_size, spelled, whole_characters
from gpulsh.text.documents import Documents, TextReading

REPLACEMENT = "\ufffd"
HANGUL_JAMO = range(0x1160, 0x1200)  # vowels and finals, which join the consonant before


def read_text(text: TextBatch, folding: Folding, of_bytes: bool) -> TextBatch:
    """The text that a backend reads instead of a batch."""
    return spelled(text) if of_bytes else normalized(text, folding.form)


def chosen_batches(documents: Documents, rows: Numbers) -> Iterator[tuple[slice, TextBatch]]:
    """The texts of documents `rows`, ascending, in batches, each with its slice of `rows`."""
    chosen = documents.source.choose(rows)
    for start, stop in batch_cuts(offsets(documents.ops.asnumpy(chosen.sizes)), documents.ops.sizes().tile):
        yield slice(start, stop), chosen.take(np.arange(start, stop))


def byte_bounds(documents: Documents, base: Numbers, places: Numbers) -> Numbers:
    """int64 [q, 2]: the first byte of the token at each of `places` [q], and the byte after it, in its original text.

    `places` ascend; `base` int64 [n] is the place of the first token of each document.
    """
    bounds = np.empty((len(places), 2), np.int64)
    row = np.searchsorted(base, places, side="right") - 1
    rows = distinct(row)
    for part, text in chosen_batches(documents, rows):
        here = slice(*np.searchsorted(row, [rows[part][0], rows[part][-1] + 1]))
        number = np.searchsorted(rows[part], row[here])
        bounds[here] = byte_bounds_of(documents, text, number, places[here] - base[row[here]])
    return bounds


def byte_bounds_of(reading: TextReading, text: TextBatch, row: Numbers, token: Numbers) -> Numbers:
    """int64 [q, 2]: the same for tokens of documents `row` of a batch, both int64 [q], ascending."""
    ops, form = reading.ops, reading.folding.form
    if reading.of_bytes:
        return whole_characters(text.moved(on_host), row, np.stack([token, token + 1], axis=1))
    read = normalized(text, form)
    bounds: Numbers = ops.asnumpy(ops.token_bounds(read, reading.shingling, ops.asarray(row), ops.asarray(token)))
    if form is None or read is text:
        return bounds
    return _original(text.moved(on_host), read, row, bounds, form)


def _original(text: TextBatch, read: TextBatch, row: Numbers, bounds: Numbers, form: NormalForm) -> Numbers:
    """Turn bounds in the normal form `read` into bounds in the bytes of `text`; `row`, ascending, are documents."""
    found = bounds.copy()
    for number in distinct(row).tolist():
        start, stop = text.offset[number : number + 2].tolist()
        document = bytes(text.values[start:stop])
        if not document.isascii():
            here = slice(*np.searchsorted(row, [number, number + 1]))
            before, after = _stretches(document, form)
            assert after[-1] == read.offset[number + 1] - read.offset[number]
            begin, end = bounds[here].T
            found[here, 0] = before[np.searchsorted(after, begin, side="left")]
            found[here, 1] = before[np.searchsorted(after, end, side="right") - 1]
    return found


def _stretches(document: bytes, form: NormalForm) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64 [s + 1], int64 [s + 1]: where stretches begin and the last ends, in bytes of a document and of its form.

    Where characters are normalized one by one to the same, as in normal text, every character is one.
    """
    before, after, stretch, sizes = [0], [0], list[str](), list[int]()

    def close() -> None:
        together = "".join(stretch)
        normal = normal_form(together, form)
        alone = stretch if normal == together else [unicodedata.normalize(form, one) for one in stretch]
        if "".join(alone) == normal:
            before.extend(sizes)
            after.extend(len(one.encode()) for one in alone)
        else:
            before.append(sum(sizes))
            after.append(len(normal.encode()))

    taken = 0
    for character in document.decode("utf-8", "replace"):
        if _begins_stretch(character, form):
            close()
            stretch, sizes = [], []
        stretch.append(character)
        is_invalid = character == REPLACEMENT and document[taken : taken + 3] != REPLACEMENT.encode()
        sizes.append(character_size(document[taken : taken + 4]) if is_invalid else len(character.encode()))
        taken += sizes[-1]
    close()
    return np.cumsum(before), np.cumsum(after)


@lru_cache(maxsize=1 << 16)
def _begins_stretch(character: str, form: NormalForm) -> bool:
    """Whether it neither composes with the character before it nor changes places with it."""
    first = unicodedata.normalize("NFKD" if form == "NFKC" else "NFD", character)[0]
    return unicodedata.combining(first) == 0 and ord(first) not in HANGUL_JAMO and ord(first) not in _second_of_pairs()


@cache
def _second_of_pairs() -> frozenset[int]:
    """The code points that compose with one before them."""
    pairs = (unicodedata.decomposition(chr(point)).split() for point in range(0x110000))
    return frozenset(int(pair[1], 16) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<"))
