"""Whole lines: a line with a mark is marked, unless it holds a token of a first occurrence that stays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Numbers, TextBatch, on_host
from gpulsh.ragged import distinct, first_of_runs, offsets, ranges, within_runs
from gpulsh.repeats.byte_text import character_spans
from gpulsh.repeats.marks import TokenSpans
from gpulsh.repeats.places import byte_bounds_of, chosen_batches
from gpulsh.text.documents import Documents, TextReading

LINE_END = 10


class WholeLines(NamedTuple):
    """Spans of tokens, and of those at the ends of a line that is marked whole, where the line begins or ends."""

    spans: TokenSpans
    start: Numbers  # int64 [k]: bytes of the original text; -1 of a span that does not begin a whole line
    stop: Numbers  # int64 [k]: the byte after the line's end; -1 of a span that does not end a whole line

    @classmethod
    def none(cls, spans: TokenSpans) -> WholeLines:
        """These spans, without added parts of lines."""
        return cls(spans, *(np.full(len(spans.start), -1, np.int64) for _ in range(2)))

    def located(
        self, base: Numbers, places: Numbers, bounds: Numbers, of_bytes: bool
    ) -> tuple[TokenSpans, Numbers, Numbers, Numbers]:
        """Spans, and int64 [k] each: their rows in `base`, and where they begin and end in bytes.

        `bounds` [q, 2] are the bytes of the tokens at `places` [q]. Bytes between two adjacent spans belong to the
        first, except between an added part of a line and a line that stays. Bytes after the last one do not: they may
        be part of a character that normalization makes several tokens.
        If tokens are bytes, spans become spans of whole characters.
        """
        begin = bounds[np.searchsorted(places, self.spans.start), 0]
        end = bounds[np.searchsorted(places, self.spans.stop - 1), 1]
        start, stop = np.where(self.start < 0, begin, self.start), np.where(self.stop < 0, end, self.stop)
        row = np.searchsorted(base, self.spans.start, side="right") - 1
        if of_bytes:
            spans = character_spans(self.spans, base[row] + start, base[row] + stop)
            row = np.searchsorted(base, spans.start, side="right") - 1
            return spans, row, spans.start - base[row], spans.stop - base[row]
        is_added = self.spans.first < 0
        begins, ends = self.start[1:] >= 0, self.stop[:-1] >= 0
        parts = (begins & ~ends & is_added[1:]) | (ends & ~begins & is_added[:-1])
        touching = np.append(self.spans.stop[:-1] == self.spans.start[1:], np.False_)[: len(stop)]
        last = np.flatnonzero(~touching | np.append(parts, np.False_)[: len(stop)])
        limit = stop[last[np.searchsorted(last, np.arange(len(stop)))]]
        stop = np.where(touching, np.minimum(np.roll(start, -1), limit), stop)
        return self.spans, row, start, stop


def whole_lines(documents: Documents, base: Numbers, spans: TokenSpans, kept: Numbers, tokens: int) -> WholeLines:
    """Spans widened to lines, where no token is in one of the windows at places `kept`, ascending, of `tokens` tokens.

    The rest of a line is a span that does not repeat. It occurs as often as the line's most frequent mark.
    """
    rows = distinct(np.searchsorted(base, spans.start, side="right") - 1)
    parts = [WholeLines.none(spans.chosen(slice(0)))]
    for part, text in chosen_batches(documents, rows):
        chosen = rows[part]
        here = [base[chosen[0]], base[chosen[-1] + 1]]
        some = spans.chosen(slice(*np.searchsorted(spans.start, here)))
        windows = kept[slice(*np.searchsorted(kept, here))]
        windows = windows[np.isin(np.searchsorted(base, windows, side="right") - 1, chosen)]
        parts.append(lines_of_batch(documents, base, chosen, text, some, windows, tokens))
    columns = [np.concatenate(pair) for pair in zip(*([*one.spans, one.start, one.stop] for one in parts), strict=True)]
    return WholeLines(TokenSpans(*columns[:4]), *columns[4:])


def lines_of_batch(
    reading: TextReading, base: Numbers, rows: Numbers, text: TextBatch, spans: TokenSpans, kept: Numbers, tokens: int
) -> WholeLines:
    """Likewise for a batch of documents `rows` that all have windows, with their `spans` and `kept`."""
    counts = base[rows + 1] - base[rows] - 1  # a document with a window takes one place more than it has tokens
    offset = offsets(counts)
    document, token = np.repeat(np.arange(len(rows)), counts), within_runs(counts)
    bounds = byte_bounds_of(reading, text, document, token)
    text = text.moved(on_host)
    begin = bounds[:, 0] + text.offset[document]
    ends = np.flatnonzero(text.values == LINE_END)  # also before and behind the batch
    line = np.searchsorted(ends, begin)
    lines = np.flatnonzero(first_of_runs(line + document))  # the first token of each line
    line_of = np.repeat(np.arange(len(lines)), np.diff(np.append(lines, len(line))))

    def numbers(places: Numbers) -> Numbers:
        row = np.searchsorted(base, places, side="right") - 1
        return places - base[row] + offset[np.searchsorted(rows, row)]

    start, size = numbers(spans.start), spans.stop - spans.start
    occurrences = np.zeros(len(line), np.int64)
    occurrences[ranges(start, size)] = np.repeat(spans.occurrences, size)
    most = np.maximum.reduceat(occurrences, lines)
    stays = np.zeros(len(line) + 1, np.int64)
    np.add.at(stays, numbers(kept), 1)
    np.add.at(stays, numbers(kept) + tokens, -1)
    stays = np.add.reduceat(np.cumsum(stays[:-1]), lines)
    is_whole = (most > 0) & (stays == 0)

    beside = np.flatnonzero(is_whole[line_of] & (occurrences == 0))
    fresh = np.ones(len(beside), bool)
    fresh[1:] = (beside[1:] != beside[:-1] + 1) | (line_of[beside[1:]] != line_of[beside[:-1]])
    first, last = beside[fresh], beside[np.append(fresh[1:], fresh[:1])]
    place = base[rows[document]] + token
    joined = spans.with_gaps(place[first], place[last] + 1, most[line_of[first]])

    start, last = numbers(joined.start), numbers(joined.stop - 1)
    opens = is_whole[line_of[start]] & (lines[line_of[start]] == start)
    closes = is_whole[line_of[last]] & (np.append(lines, len(line))[line_of[last] + 1] - 1 == last)
    padded = np.concatenate([[-1], ends, [np.iinfo(np.int64).max]])
    origin, end = text.offset[document[start]], text.offset[document[last] + 1]
    line_begins = np.maximum(padded[line[start]] + 1, origin) - origin
    line_stops = np.minimum(padded[line[last] + 1], end - 1) + 1 - text.offset[document[last]]
    return WholeLines(joined, np.where(opens, line_begins, -1), np.where(closes, line_stops, -1))
