"""Texts whose tokens are their bytes, for windows of bytes.

Each byte becomes a character of its own. Every backend reads characters as tokens, so it needs no code for bytes. A run
of bytes may begin or end within a character of the text; `whole_characters` moves its ends inwards. A character left
between two spans is a span of its own: `character_spans`.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.params import Folding, Shingling
from gpulsh.ragged import first_of_runs
from gpulsh.repeats.marks import TokenSpans

FIRST = 0x4E00  # the character of byte 0; all 256 characters are in one block, and folding changes none
WIDTH = 3  # bytes of each in UTF-8
FOLDING = Folding(case=False)
READING = Shingling(unit="char")


def spelled(text: TextBatch) -> TextBatch:
    """A batch with a character for each byte of `text`, in the same memory."""
    first, last = int(text.offset[0]), int(text.offset[-1])
    values = text.values[first:last]
    characters = np.empty((last - first, WIDTH), np.uint8, like=values)
    for place, byte in enumerate((0xE4, values >> 6 | 0xB8, values & 0x3F | 0x80)):  # of chr(FIRST + value) in UTF-8
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
            found[at, side] = _moved(values, begin, end, int(place[at]))[side] - begin
    return found


def _moved(values: Numbers, begin: int, end: int, place: int) -> tuple[int, int]:
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

    Characters whose bytes are in several spans that touch are spans of their own. These do not repeat, as the first
    occurrences of the parts may be of other characters, and they occur as often as the rarest part.
    """
    if len(start) == 0:
        return spans
    apart = np.append(True, spans.stop[:-1] != spans.start[1:])
    heads = np.flatnonzero(apart)
    tails = np.append(heads[1:], len(apart)) - 1
    whole = np.flatnonzero(start < stop)
    number = np.concatenate([heads, whole, tails])  # all that has a gap before or behind it: ends of runs, and spans
    begin = np.concatenate([start[heads], start[whole], stop[tails]])
    end = np.concatenate([start[heads], stop[whole], stop[tails]])
    order = np.argsort(number, kind="stable")
    number, begin, end = number[order], begin[order], end[order]
    run = np.cumsum(apart)[number]
    before = np.flatnonzero((end[:-1] < begin[1:]) & ~first_of_runs(run)[1:])
    parts = np.stack([number[before], number[before + 1] + 1], axis=1).reshape(-1)
    rarest = np.minimum.reduceat(np.append(spans.occurrences, 0), parts)[::2] if len(parts) else parts
    kept = spans._replace(start=start, stop=stop).chosen(whole)
    return kept.with_gaps(end[before], begin[before + 1], rarest)
