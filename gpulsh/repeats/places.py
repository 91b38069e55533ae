"""From places of tokens to bytes of the original texts.

`Backend.token_bounds` knows the bytes of the text that a backend reads: the original, or its normal form. For a normal
form, the original is cut into stretches that normalize independently. A stretch begins with a character that no
normalization joins with the one before. A bound within a stretch, which is rare, moves inwards to one of its ends, so a
span never takes bytes of another token.

For windows of bytes, tokens are the bytes of a text: `spell_bytes` makes each byte a character of its own.
Every backend reads characters as tokens, so it needs no code for bytes. A run of bytes may begin or end within a
character of the text; `whole_characters` moves its ends inwards. A character left between two spans is a span of its
own: `character_spans`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, on_host
from gpulsh.io.normal_form import PIECE_BYTES, normal_form, normal_pieces, normalizes_alone
from gpulsh.io.rows import batch_cuts, normalized
from gpulsh.params import Folding, NormalForm, Shingling
from gpulsh.ragged import distinct, first_of_runs, last_of_runs, offsets, row_of, row_ranges, select_rows, slice_between
from gpulsh.repeats.windows import TokenSpans
from gpulsh.text.documents import Documents, TextReading

REPLACEMENT = "\ufffd"
SPANS_AT_ONCE = 1 << 18  # whose bytes are found together
SHORT = 16  # characters of a stretch whose form is kept
WIDTH = 3  # bytes of the character of a byte, chr(0x4E00 + value), in UTF-8; folding changes none of these 256
BYTES_FOLDING = Folding(case=False)
BYTES_READING = Shingling(unit="char")


def read_text(text: TextBatch, folding: Folding, of_bytes: bool) -> TextBatch:
    """The text that a backend reads instead of a batch."""
    return spell_bytes(text) if of_bytes else normalized(text, folding.form)


def row_batches(documents: Documents, rows: Numbers) -> Iterator[tuple[slice, TextBatch]]:
    """The texts of documents `rows`, ascending, in batches, each with its slice of `rows`."""
    chosen = documents.source.choose(rows)
    for start, stop in batch_cuts(offsets(documents.ops.asnumpy(chosen.sizes)), documents.ops.sizes().tile):
        yield slice(start, stop), chosen.take(np.arange(start, stop))


def byte_bounds(documents: Documents, base: Numbers, places: Numbers) -> Numbers:
    """int64 [q, 2]: the first byte of the token at each of `places` [q], and the byte after it, in its original text.

    `places` ascend; `base` int64 [n] is the place of the first token of each document.
    """
    bounds = np.empty((len(places), 2), np.int64)
    row = row_of(base, places)
    rows = distinct(row)
    for part, text in row_batches(documents, rows):
        here = slice_between(row, rows[part][0], rows[part][-1] + 1)
        number = np.searchsorted(rows[part], row[here])
        bounds[here] = batch_byte_bounds(documents, text, number, places[here] - base[row[here]])
    return bounds


def batch_byte_bounds(reading: TextReading, text: TextBatch, row: Numbers, token: Numbers) -> Numbers:
    """int64 [q, 2]: the same for tokens of documents `row` of a batch, both int64 [q], ascending."""
    read = text if reading.of_bytes else normalized(text, reading.folding.form)
    bounds, form = read_text_bounds(reading, read, row, token), reading.folding.form
    if form is not None and read is not text:
        text, read = text.moved(on_host), read.moved(on_host)
        for number in distinct(row).tolist():
            one, other = (batch.values[slice(*batch.offset[number : number + 2])] for batch in (text, read))
            if not np.array_equal(one, other):
                here = slice_between(row, number, number + 1)
                bounds[here] = NormalPieces.from_document(one, other, form).original(bounds[here])
    return bounds


def byte_spans(reading: TextReading, text: TextBatch, row: Numbers, first: Numbers, stop: Numbers) -> Numbers:
    """int64 [m, 2]: the bytes of the tokens from `first` to before `stop`, in the original texts `row` of a batch.

    Equal rows are neighbours.
    """
    bounds = np.append(np.flatnonzero(first_of_runs(row)), len(row))  # of whole documents
    parts = (slice(bounds[start], bounds[end]) for start, end in row_ranges(bounds, SPANS_AT_ONCE))
    found = [_byte_spans(reading, text, row[some], first[some], stop[some]) for some in parts]
    return np.concatenate([np.empty((0, 2), np.int64), *found])


def _byte_spans(reading: TextReading, text: TextBatch, row: Numbers, first: Numbers, stop: Numbers) -> Numbers:
    rows, number = np.unique(row, return_inverse=True)
    ends = np.stack([np.tile(number, 2), np.concatenate([first, stop - 1])], axis=1)
    places, which = np.unique(ends, axis=0, return_inverse=True)
    begin, end = which.reshape(2, -1)
    bounds = batch_byte_bounds(reading, select_rows(text.moved(on_host), rows), *np.ascontiguousarray(places.T))
    return np.stack([bounds[begin, 0], bounds[end, 1]], axis=1)


def read_text_bounds(reading: TextReading, read: TextBatch, row: Numbers, token: Numbers) -> Numbers:
    """Likewise in bytes of the text that the backend reads."""
    ops = reading.ops
    if reading.of_bytes:
        return whole_characters(read.moved(on_host), row, np.stack([token, token + 1], axis=1))
    bounds: Numbers = ops.asnumpy(ops.token_bounds(read, reading.shingling, ops.asarray(row), ops.asarray(token)))
    return bounds


class NormalPieces(NamedTuple):
    """A document and its normal form, on the host, in pieces that normalize by themselves."""

    text: NDArray[np.uint8]
    read: NDArray[np.uint8]
    form: NormalForm
    before: Numbers  # int64 [p + 1]: where pieces begin and the last ends, in bytes of the document
    after: Numbers  # int64 [p + 1]: likewise of the normal form

    @classmethod
    def from_document(cls, text: NDArray[np.uint8], read: NDArray[np.uint8], form: NormalForm) -> NormalPieces:
        """Of a document that is not empty; normalizes it again if it is long."""
        ends = [(len(text), len(read))]
        if len(text) > PIECE_BYTES:
            ends = [(stop, len(piece)) for stop, piece in normal_pieces(text.data, form)]
        before, sizes = zip(*ends, strict=True)
        return cls(text, read, form, np.array([0, *before]), offsets(sizes))

    def original(self, bounds: Numbers) -> Numbers:
        """int64 [q, 2]: bounds in the normal form, ascending, as bounds in bytes of the document."""
        found = np.empty_like(bounds)
        begins = np.searchsorted(self.after, bounds[:, 0], side="right")
        ends = np.searchsorted(self.after, bounds[:, 1])
        for piece in distinct(np.sort(np.concatenate([begins, ends]))).tolist():
            (start, stop), (first, last) = self.before[piece - 1 : piece + 1], self.after[piece - 1 : piece + 1]
            here, there = (slice_between(of, piece, piece + 1) for of in (begins, ends))
            begin, end = bounds[here, 0] - first, bounds[there, 1] - first
            document = bytes(self.text[start:stop])
            if document != bytes(self.read[first:last]):
                before, after = _stretches(document, self.form)
                assert after[-1] == last - first
                begin = before[np.searchsorted(after, begin)]
                end = before[np.searchsorted(after, end, side="right") - 1]
            found[here, 0], found[there, 1] = begin + start, end + start
        return found


def _stretches(document: bytes, form: NormalForm) -> tuple[Numbers, Numbers]:
    """int64 [s + 1], int64 [s + 1]: where stretches begin and the last ends, in bytes of a document and of its form.

    Where characters are normalized one by one to the same, as in normal text, every character is one.
    """
    text = document.decode("utf-8", "replace")
    points, facts = np.frombuffer(text.encode("utf-32-le"), np.uint32), _character_sizes(form)
    for point in np.unique(points[facts[points, 0] == 0]).tolist():
        size = len(chr(point).encode()), len(unicodedata.normalize(form, chr(point)).encode())
        facts[point] = *size, normalizes_alone(chr(point), form)
    size, normal, begins = facts[points].T.astype(np.int32)
    if len(document) != size.sum():
        _count_invalid(size, text, document)
    begins[:1] = True
    opens = np.flatnonzero(begins)
    closes = np.append(opens[1:], len(text))
    several = closes - opens > 1
    for start, stop in zip(opens[several].tolist(), closes[several].tolist(), strict=True):
        form_of = _form_size if stop - start <= SHORT else _form_size.__wrapped__
        together = form_of(text[start:stop], form)
        if together:
            size[start], normal[start] = size[start:stop].sum(), together
            size[start + 1 : stop] = 0
    return offsets(size[size > 0]), offsets(normal[size > 0])


def _count_invalid(size: NDArray[np.int32], text: str, document: bytes) -> None:
    """Set the `size` of each U+FFFD that replaces invalid bytes."""
    start = offsets(size)
    moved = 0
    for at in np.flatnonzero(size == len(REPLACEMENT.encode())).tolist():
        if text[at] == REPLACEMENT:
            place = int(start[at]) + moved
            size[at] = character_size(document[place : place + 4])
            moved += int(size[at]) - 3


@cache
def _character_sizes(form: NormalForm) -> NDArray[np.uint8]:
    """uint8 [0x110000, 3]: bytes of each character and of its form, whether it begins a stretch; 0 until needed."""
    return np.zeros((0x110000, 3), np.uint8)


@lru_cache(maxsize=1 << 16)
def _form_size(stretch: str, form: NormalForm) -> int:
    """The bytes of a stretch's form; 0 if its characters normalize one by one to the same."""
    together = normal_form(stretch, form)
    alone = together == stretch or together == "".join(unicodedata.normalize(form, one) for one in stretch)
    return 0 if alone else len(together.encode())


# --- texts whose tokens are bytes


def spell_bytes(text: TextBatch) -> TextBatch:
    """A batch with a character for each byte of `text`, in the same memory."""
    first, last = int(text.offset[0]), int(text.offset[-1])
    values = text.values[first:last]
    characters = np.empty((last - first, WIDTH), np.uint8, like=values)
    for place, byte in enumerate((0xE4, values >> 6 | 0xB8, values & 0x3F | 0x80)):
        characters[:, place] = byte
    return TextBatch(characters.reshape(-1), (text.offset - np.int64(first)) * np.int64(WIDTH))


def whole_characters(text: TextBatch, row: Numbers, bounds: Numbers) -> Numbers:
    """int64 [q, 2]: `bounds` [q, 2] of bytes in documents `row` [q] of a batch on the host, at ends of characters.

    Characters are as in `bytes.decode("utf-8", "replace")`. A begin moves forwards, an end backwards.
    """
    found = bounds.copy()
    values, offset = text.values, text.offset
    for side in range(2):
        place = bounds[:, side] + offset[row]
        inside = (place > offset[row]) & (place < offset[row + 1])
        inside[inside] = (values[place[inside]] & 0xC0) == 0x80
        for at in np.flatnonzero(inside).tolist():
            begin, end = int(offset[row[at]]), int(offset[row[at] + 1])
            found[at, side] = _character_ends(values, begin, end, int(place[at]))[side] - begin
    return found


def _character_ends(values: Numbers, begin: int, end: int, place: int) -> tuple[int, int]:
    """The ends forwards and backwards of the character that holds the byte at `place`, or `place`, if it begins one."""
    for back in range(1, min(4, place - begin + 1)):
        lead = int(values[place - back])
        if lead & 0xC0 == 0x80:
            continue
        sequence = bytes(values[place - back : min(place - back + 4, end)])
        size = character_size(sequence)
        return (place - back + size, place - back) if size > back else (place, place)
    return place, place


def character_size(sequence: bytes) -> int:
    """How many bytes at the front of a sequence `bytes.decode("utf-8", "replace")` takes as one character."""
    try:
        return len(sequence.decode()[0].encode())
    except UnicodeDecodeError as error:
        return error.end if error.start == 0 else len(sequence[: error.start].decode()[0].encode())


def character_spans(spans: TokenSpans, start: Numbers, stop: Numbers) -> TokenSpans:
    """Spans of bytes as spans of whole characters; their places `start`, `stop` int64 [k] were moved inwards before.

    A character whose bytes are in several spans that touch is a span of its own. It does not repeat, as the first
    occurrences of its parts may be in other characters, and it occurs as often as the rarest part.
    """
    if len(start) == 0:
        return spans
    touches = spans.stop[:-1] == spans.start[1:]
    heads = np.flatnonzero(np.append(True, ~touches))
    run = np.cumsum(np.append(True, ~touches)) - 1
    first, last = start[heads][run], stop[np.append(heads[1:], len(run)) - 1][run]  # places of whole characters
    # Two spans that meet within a character: one ends before it, and the other begins behind it.
    meet = np.flatnonzero(touches & (stop[:-1] < start[1:]) & (first[:-1] <= stop[:-1]) & (start[1:] <= last[1:]))
    fresh = first_of_runs(stop[meet])
    begin, end = stop[meet[fresh]], start[meet[fresh] + 1]
    parts = np.stack([meet[fresh], meet[last_of_runs(fresh)] + 2], axis=1).reshape(-1)
    rarest = np.minimum.reduceat(np.append(spans.occurrences, 0), parts)[::2] if len(parts) else parts
    kept = spans._replace(start=start, stop=stop).select(np.flatnonzero(start < stop))
    return kept.with_gaps(begin, end, rarest)
