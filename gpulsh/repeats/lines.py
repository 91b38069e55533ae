"""Whole lines: a line with a mark is marked, unless it holds a token of a first occurrence that stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Numbers, TextBatch, Values, on_host
from gpulsh.ragged import distinct, expand_ranges, first_of_runs, row_of, run_places, slice_between
from gpulsh.repeats.places import batch_byte_bounds, character_spans, row_batches
from gpulsh.repeats.windows import TokenSpans
from gpulsh.text.documents import Documents, TextReading

LINE_END = 10
ADDED = -2  # `first` of an added part of a line; -1 is that of a bridge


class WholeLines(NamedTuple):
    """Spans of tokens, and of those at the ends of a line that is marked whole, where the line begins or ends."""

    spans: TokenSpans
    start: Numbers  # int64 [k]: bytes of the original text; -1 of a span that does not begin a whole line
    stop: Numbers  # int64 [k]: the byte after the line's end; -1 of a span that does not end a whole line

    @classmethod
    def from_spans(cls, spans: TokenSpans) -> WholeLines:
        """These spans, without added parts of lines."""
        return cls(spans, *(np.full(len(spans.start), -1, np.int64) for _ in range(2)))

    @classmethod
    def concat(cls, parts: Iterable[WholeLines]) -> WholeLines:
        """The spans of all parts, in order."""
        none = np.empty(0, np.int64)
        rows = [[none] * 6, *([*part.spans, part.start, part.stop] for part in parts)]
        columns = [np.concatenate(pair) for pair in zip(*rows, strict=True)]
        return cls(TokenSpans(*columns[:4]), *columns[4:])

    def select(self, which: slice) -> WholeLines:
        """Some of the spans."""
        return WholeLines(self.spans.select(which), self.start[which], self.stop[which])

    def locate(
        self, base: Numbers, places: Numbers, bounds: Numbers, of_bytes: bool
    ) -> tuple[TokenSpans, Numbers, Numbers, Numbers, Numbers]:
        """Spans, and int64 [k] each: their documents' numbers, where they begin and end in bytes, and their tokens.

        `base` has the first places of documents, ascending, at least of those with a span.
        `bounds` [q, 2] are the bytes of the tokens at `places` [q]. Bytes between two adjacent spans belong to the
        first, except between an added part of a line and a line that stays. Bytes after the last one do not: they may
        be part of a character that normalization makes several tokens. A span within such a character has no bytes,
        and its tokens count for the span before it that has the character.
        If tokens are bytes, spans become spans of whole characters.
        """
        begin = bounds[np.searchsorted(places, self.spans.start), 0]
        end = bounds[np.searchsorted(places, self.spans.stop - 1), 1]
        # A marked blank of characters may go on after the end of its line, and stays marked there.
        is_added = self.spans.first == ADDED
        start = np.where(self.start < 0, begin, self.start)
        stop = np.where(is_added & (self.stop >= 0), self.stop, np.maximum(self.stop, end))
        row = row_of(base, self.spans.start)
        if of_bytes:
            spans = character_spans(self.spans, base[row] + start, base[row] + stop)
            row = row_of(base, spans.start)
            return spans, row, spans.start - base[row], spans.stop - base[row], spans.stop - spans.start
        begins, ends = self.start[1:] >= 0, self.stop[:-1] >= 0
        parts = (begins & ~ends & is_added[1:]) | (ends & ~begins & is_added[:-1])
        touching = np.append(self.spans.stop[:-1] == self.spans.start[1:], np.False_)[: len(stop)]
        last = np.flatnonzero(~touching | np.append(parts, np.False_)[: len(stop)])
        limit = stop[last[np.searchsorted(last, np.arange(len(stop)))]]
        stop = np.where(touching, np.minimum(np.roll(start, -1), limit), stop)
        tokens, is_empty = self.spans.stop - self.spans.start, start >= stop
        empty, others = np.flatnonzero(is_empty), np.flatnonzero(~is_empty)
        before = np.searchsorted(others, empty)
        empty, holder = empty[before > 0], others[before[before > 0] - 1]
        is_held = (row[holder] == row[empty]) & (stop[holder] == start[empty])
        np.add.at(tokens, holder[is_held], tokens[empty[is_held]])
        return self.spans, row, start, stop, tokens


def whole_lines(documents: Documents, base: Numbers, spans: TokenSpans, kept: Numbers, tokens: int) -> WholeLines:
    """Spans widened to lines, where no token is in one of the windows at places `kept`, ascending, of `tokens` tokens.

    The rest of a line is a span that does not repeat. It occurs as often as the line's most frequent mark.
    """
    rows = distinct(row_of(base, spans.start))
    parts = list[WholeLines]()
    for part, text in row_batches(documents, rows):
        chosen = rows[part]
        here = [base[chosen[0]], base[chosen[-1] + 1]]
        some = spans.select(slice_between(spans.start, *here))
        windows = kept[slice_between(kept, *here)]
        parts.append(lines_of_batch(documents, base[chosen], base[chosen + 1], text, some, windows, tokens))
    return WholeLines.concat(parts)


def lines_of_batch(
    reading: TextReading, start: Numbers, stop: Numbers, text: TextBatch, spans: TokenSpans, kept: Numbers, tokens: int
) -> WholeLines:
    """Likewise for a batch of documents that all have windows, with their `spans` and `kept`.

    They take the places from `start` to before `stop`, int64 [n] each.
    """
    counts = stop - start - 1  # a document with a window takes one place more than it has tokens
    document, token = np.repeat(np.arange(len(start)), counts), run_places(counts)
    bounds = batch_byte_bounds(reading, text, document, token)
    text = text.moved(on_host)
    begin, place = bounds[:, 0] + text.offset[document], start[document] + token
    ends = np.flatnonzero(text.values == LINE_END)  # also before and after the batch
    line = np.searchsorted(ends, begin)
    first = np.flatnonzero(first_of_runs(line + document))  # the first token of each line
    last = np.append(first[1:], len(line)) - 1
    padded = np.concatenate([[-1], ends, [np.iinfo(np.int64).max - 1]])
    origin, end = text.offset[document[first]], text.offset[document[first] + 1]
    begins, stops = np.maximum(padded[line[first]] + 1, origin), np.minimum(padded[line[last] + 1] + 1, end)
    lines = Lines(place[first], place[last] + 1, begins - origin, stops - origin)

    def spans_between(start: int, stop: int) -> TokenSpans:
        return spans.select(slice_between(spans.start, start, stop))

    def kept_between(start: int, stop: int) -> Numbers:
        return kept[slice_between(kept, start, stop)]

    return WholeLines.concat(widen_to_lines([lines], spans_between, kept_between, tokens))


class Lines(NamedTuple):
    """Lines of documents that have a token, in order: int64 [m] each."""

    first: Numbers  # the place of the first token
    stop: Numbers  # the place after the last token
    begin: Numbers  # the byte of the document where the line begins
    end: Numbers  # the byte after its end

    def lines_over(self, start: Numbers, stop: Numbers) -> tuple[Numbers, Numbers]:
        """int64 [k] each: the first line with a token from place `start` to before `stop`, and how many have."""
        line = np.searchsorted(self.stop, start, side="right")
        return line, np.maximum(np.searchsorted(self.first, stop) - line, 0)


def lines_of_parts(values: Values, parts: Iterable[tuple[int, Numbers]]) -> Iterator[Lines]:
    """The lines of one document, uint8 [b] on the host, read part by part.

    A part has the place of its first token, and the byte where each token begins, int64 [t]. The memory for a line
    does not depend on its length.
    """
    first = place = -1  # of the line that goes on
    begin = origin = 0  # of it, and of the last token so far
    for low, found in parts:
        if len(found) == 0:
            continue
        ends = np.flatnonzero(values[origin : found[-1]] == LINE_END) + origin
        line = np.searchsorted(ends, found)
        fresh = np.flatnonzero(line != np.append(0, line[:-1]))
        if first < 0:
            first, begin = low, int(ends[line[0] - 1]) + 1 if line[0] else 0
            fresh = fresh[fresh > 0]
        firsts, begins = np.append(first, low + fresh), np.append(begin, ends[line[fresh] - 1] + 1)
        number = line[fresh - 1] * (fresh > 0)  # of the lines that end: 0 is that of the last token before this part
        yield Lines(firsts[:-1], firsts[1:], begins[:-1], ends[number] + 1)
        first, begin, origin, place = int(firsts[-1]), int(begins[-1]), int(found[-1]), low + len(found)
    if first >= 0:
        ends = np.flatnonzero(values[origin:] == LINE_END)[:1] + origin + 1
        yield Lines(*(np.array([number]) for number in (first, place, begin, *ends.tolist(), len(values))[:4]))


def widen_to_lines(
    lines: Iterable[Lines],
    spans_between: Callable[[int, int], TokenSpans],
    kept_between: Callable[[int, int], Numbers],
    tokens: int,
    in_ranges: Callable[[int, int], Sequence[tuple[int, int]]] = lambda start, stop: [(start, stop)],
) -> Iterator[WholeLines]:
    """Spans of all `lines`, in order, widened to lines, where no token is in a kept window of `tokens` tokens.

    `spans_between` and `kept_between` give the spans and the kept windows that begin at a place of a range; `in_ranges`
    cuts a long range into those that are looked at together.
    """
    waiting = WholeLines.concat([])  # a span that continues after the lines so far, if there is one

    def spans_of(start: int, stop: int) -> TokenSpans:
        return TokenSpans(*map(np.concatenate, zip(waiting.spans, spans_between(start, stop), strict=True)))

    for some in lines:
        if len(some.first) == 0:
            continue
        low, high = int(some.first[0]), int(some.stop[-1])
        places = in_ranges(low, high)
        most, change = np.zeros(len(some.first), np.int64), np.zeros(len(some.first) + 1, np.int64)
        for start, stop in places:
            spans = spans_of(start, stop)
            line, count = some.lines_over(spans.start, spans.stop)
            np.maximum.at(most, expand_ranges(line, count), np.repeat(spans.occurrences, count))
            kept = kept_between(start - tokens + 1 if start == low else start, stop)
            line, count = some.lines_over(kept, kept + tokens)
            np.add.at(change, line, 1)
            np.add.at(change, line + count, -1)
        is_whole = (most > 0) & (np.cumsum(change[:-1]) == 0)
        done = low  # the place up to which all tokens are in a span, or stay
        for start, stop in places:
            spans, begins = spans_of(start, stop), waiting.start
            first, last = np.append(done, spans.stop), np.append(spans.start, high if stop == high else done)
            done = int(first[-1])
            line, count = some.lines_over(first, last)
            gap, of = np.repeat(np.arange(len(first)), count), expand_ranges(line, count)
            gap, of = gap[is_whole[of]], of[is_whole[of]]
            first, last = np.maximum(first[gap], some.first[of]), np.minimum(last[gap], some.stop[of])
            is_gap = first < last
            joined = spans.with_gaps(first[is_gap], last[is_gap], most[of[is_gap]], ADDED)
            line = np.searchsorted(some.stop, joined.start, side="right")
            begin = np.where(is_whole[line] & (some.first[line] == joined.start), some.begin[line], -1)
            begin[: len(begins)] = begins
            line = np.minimum(np.searchsorted(some.stop, joined.stop), len(some.stop) - 1)
            end = np.where(is_whole[line] & (some.stop[line] == joined.stop), some.end[line], -1)
            found = WholeLines(joined, begin, end)
            known = len(end) - int(len(end) > 0 and joined.stop[-1] > high)
            waiting = found.select(slice(known, None))
            yield found.select(slice(known))
    assert len(waiting.start) == 0


def ascending_reader(parts: Iterator[WholeLines]) -> Callable[[int, int], WholeLines]:
    """A function from a range of places to the spans that begin there. Ranges must ascend from call to call."""
    held = WholeLines.concat([])

    def between(start: int, stop: int) -> WholeLines:
        nonlocal held
        found, last = [held], max([-1, *held.spans.start[-1:].tolist()])
        while last < stop and (one := next(parts, None)) is not None:
            found.append(one)
            last = max([last, *one.spans.start[-1:].tolist()])
        joined = WholeLines.concat(found)
        low, high = np.searchsorted(joined.spans.start, [start, stop]).tolist()
        held = joined.select(slice(low, None))
        return joined.select(slice(low, high))

    return between
