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
    return _original(text.moved(on_host), read.moved(on_host), row, bounds, form)


def _original(text: TextBatch, read: TextBatch, row: Numbers, bounds: Numbers, form: NormalForm) -> Numbers:
    """Turn bounds in the normal form `read` into bounds in the bytes of `text`; `row`, ascending, are documents."""
    found = bounds.copy()
    for number in distinct(row).tolist():
        start, stop = text.offset[number : number + 2].tolist()
        document = bytes(text.values[start:stop])
        if document != bytes(read.values[slice(*read.offset[number : number + 2].tolist())]):
            here = slice(*np.searchsorted(row, [number, number + 1]))
            before, after = _stretches(document, form)
            assert after[-1] == read.offset[number + 1] - read.offset[number]
            begin, end = bounds[here].T
            found[here, 0] = before[np.searchsorted(after, begin, side="left")]
            found[here, 1] = before[np.searchsorted(after, end, side="right") - 1]
    return found


def _stretches(document: bytes, form: NormalForm) -> tuple[Numbers, Numbers]:
    """int64 [s + 1], int64 [s + 1]: where stretches begin and the last ends, in bytes of a document and of its form.

    Where characters are normalized one by one to the same, as in normal text, every character is one.
    """
    text = document.decode("utf-8", "replace")
    known, which = np.unique(np.frombuffer(text.encode("utf-32-le"), np.uint32), return_inverse=True)
    facts = np.array([_facts(chr(point), form) for point in known.tolist()], np.int32).reshape(-1, 3)
    size, normal, begins = (column[which] for column in facts.T)
    if len(document) != size.sum():
        _count_invalid(size, text, document)
    begins[:1] = True
    opens = np.flatnonzero(begins)
    closes = np.append(opens[1:], len(text))
    several = closes - opens > 1
    for start, stop in zip(opens[several].tolist(), closes[several].tolist(), strict=True):
        stretch = text[start:stop]
        together = normal_form(stretch, form)
        if together != stretch and together != "".join(unicodedata.normalize(form, one) for one in stretch):
            size[start], normal[start] = size[start:stop].sum(), len(together.encode())
            size[start + 1 : stop] = 0
    return offsets(size[size > 0]), offsets(normal[size > 0])


def _count_invalid(size: NDArray[np.int32], text: str, document: bytes) -> None:
    """Set the `size` of characters that stand for invalid bytes."""
    start = offsets(size)
    moved = 0
    for at in np.flatnonzero(size == len(REPLACEMENT.encode())).tolist():
        if text[at] == REPLACEMENT:
            place = int(start[at]) + moved
            if document[place : place + 3] != REPLACEMENT.encode():
                size[at] = character_size(document[place : place + 4])
                moved += int(size[at]) - 3


@lru_cache(maxsize=1 << 16)
def _facts(character: str, form: NormalForm) -> tuple[int, int, bool]:
    """Its bytes, the bytes of its form, and whether it begins a stretch: no normalization joins or moves it."""
    first = unicodedata.normalize("NFKD" if form == "NFKC" else "NFD", character)[0]
    joins = unicodedata.combining(first) or ord(first) in HANGUL_JAMO or ord(first) in _second_of_pairs()
    return len(character.encode()), len(unicodedata.normalize(form, character).encode()), not joins


@cache
def _second_of_pairs() -> frozenset[int]:
    """The code points that compose with one before them."""
    pairs = (unicodedata.decomposition(chr(point)).split() for point in range(0x110000))
    return frozenset(int(pair[1], 16) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<"))
