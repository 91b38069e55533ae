"""Windows that repeat, and the marks of their tokens.

Samples propose where windows repeat, fingerprints propose which, and keyed fingerprints prove it.

A window is N consecutive tokens of one document. Few windows of a corpus repeat, and hashing all would cost most of the
time and memory. So gpulsh first hashes runs of about N / 3 tokens. Each window has one of its runs as its sample: the
one with the least hash, the last of equal ones (winnowing: Schleimer, Wilkerson, Aiken 2003). Equal windows have equal
samples, and adjacent windows mostly share one, so there are few samples. Only windows near a repeated sample are hashed
whole, twice. Among 10^10 windows, some 64-bit hashes of different windows are equal, but no two pairs of independent
hashes are. One of the two, and the hashes of tokens, have secret keys, so nobody can write such windows.

Each step works on the arrays of a batch, so a driver may keep them in memory or in files:

    sample_windows   texts -> samples
    repeated_samples all samples -> places of repeated samples
    windows_near     places -> windows near them
    hash_windows     texts, windows -> their hashes
    find_repeats     hashes of all windows -> repeated windows, with their first occurrence
    mark             repeated windows -> spans of marked tokens (`Marker` for windows that come piece by piece)

`sample_pieces` and `token_pieces` read a very long document part by part; only its text is in memory as a whole.

A *place* is the number of a token among the tokens of all documents. Each document takes more places than it has
tokens, so the tokens of two documents are never neighbours.

By `keep`, these tokens are marked:

"first"    the tokens of a repeated window, except tokens in the first of several equal windows
"minimal"  the tokens of a repeated window (the rule of AI2's `bsade`)
"none"     the tokens of a window that occurs more than once (the rule of Lee et al. 2022)

A token in several such windows follows one of the most frequent (see `gpulsh.backends.repeats`): it takes the first
occurrence and the number of occurrences of that window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Numbers, TextBatch, Tokens, Values
from gpulsh.backends.hashing import mix64
from gpulsh.backends.protocol import NO_DIGEST, Backend
from gpulsh.backends.repeats import FAR, SpanMarker, repeats
from gpulsh.params import Shingling
from gpulsh.ragged import expand_ranges, merge_ranges, row_of, sorted_distinct, total_size
from gpulsh.secret import EvidenceKeys

MAX_SAMPLED = 64  # tokens of a sample: samples of few bytes occur again everywhere
PIECE = 1 << 19  # of a longer document, so many windows are sampled or hashed together

Keep = Literal["first", "minimal", "none"]
Spell = Callable[[TextBatch], TextBatch]  # `places.spell_bytes`


class Samples(NamedTuple):
    """Samples of a batch: of every window at least one."""

    values: Array  # uint64 [s]: public hashes
    place: Array  # int64 [s], ascending: the place of the first token of each; the batch begins at place 0
    lengths: Array  # int64 [n]: the places that each document takes


class WindowRuns(NamedTuple):
    """Consecutive windows that may repeat, on the host, ascending and apart."""

    begin: Numbers  # int64 [t]: the place of the first token of the first window
    windows: Numbers  # int64 [t]: how many

    def places(self) -> Numbers:
        """int64 [m]: the place of each window's first token."""
        found: Numbers = expand_ranges(self.begin, self.windows)
        return found

    def clip(self, start: int, stop: int) -> WindowRuns:
        """The repeats from the place `start` to before `stop`."""
        begin, end = np.maximum(self.begin, start), np.minimum(self.begin + self.windows, stop)
        some = begin < end
        return WindowRuns(begin[some], (end - begin)[some])


class Repeats(NamedTuple):
    """Windows that occur more than once, on the host."""

    place: Numbers  # int64 [r], ascending
    first: Numbers  # int64 [r]: the place of the first equal window; its own place if it is the first
    occurrences: Numbers  # int64 [r]: how many windows are equal to it, itself included


def sample_size(tokens: int) -> int:
    """Tokens of a sample of windows of `tokens` tokens."""
    return min(max(tokens // 3, 1), MAX_SAMPLED)


def sample_windows(ops: Backend, text: TextBatch, reading: Shingling, tokens: int) -> Samples:
    """Samples of all windows of a batch. The size of `reading` does not matter."""
    size = sample_size(tokens)
    return _samples(ops, ops.shingle(text, replace(reading, size=size)), size, tokens - size + 1)


def is_long(count: int, tokens: int) -> bool:
    """Whether windows of `tokens` tokens in a document of `count` are sampled and hashed in several parts."""
    return count - tokens >= 4 * PIECE


def sample_pieces(
    ops: Backend, text: TextBatch, reading: Shingling, tokens: int, keys: EvidenceKeys, spell: Spell | None
) -> Iterator[Samples]:
    """Likewise for a batch of one document, which yields a long document in parts. The last part has its length."""
    size, last = sample_size(tokens), -1
    if spell is None:
        count = int(ops.exact_hashes(text, reading, keys)[1][0])
    else:
        count = total_size(text)
    if not is_long(count, tokens):
        yield sample_windows(ops, text if spell is None else spell(text), reading, tokens)
        return
    for start, some in token_pieces(ops, text, reading, None, count, tokens, spell):
        with ops.use_device():
            found = _samples(ops, ops.shingles(some, size), size, tokens - size + 1)
            place = found.place + np.int64(start)
            fresh = place > last  # a part may begin with the last sample of the one before
            last = int(place[-1]) if len(place) else last
            lengths = found.lengths[:0] if start + PIECE <= count - tokens else found.lengths * 0 + (count + 1)
            piece = Samples(found.values[fresh], place[fresh], lengths)
        yield piece


def token_pieces(
    ops: Backend,
    text: TextBatch,
    reading: Shingling,
    keys: EvidenceKeys | None,
    count: int,
    tokens: int,
    spell: Spell | None,
) -> Iterator[tuple[int, Tokens]]:
    """Hashes of the tokens of PIECE windows at a time, and the first token's number.

    The batch is one document of `count` tokens. Only its text is in memory as a whole. If tokens are bytes, `spell`
    gives the text that is read instead of them.
    """
    start = np.arange(0, count - tokens + 1, PIECE)
    stop = np.minimum(start + PIECE + tokens - 1, count)
    if spell is not None:
        origin = int(text.offset[0])
        for begin, end in zip(start.tolist(), stop.tolist(), strict=True):
            with ops.use_device():
                part = text.values[origin + begin : origin + end]
                yield begin, ops.tokens(spell(TextBatch(part, ops.asarray(np.array([0, end - begin])))), reading, keys)
        return
    for number, (part, before, _) in enumerate(text_parts(ops, text, reading, start, stop, count)):
        with ops.use_device():
            found = ops.tokens(part, reading, keys).values[before:][: stop[number] - start[number]]
            yield int(start[number]), Tokens(found, ops.asarray(np.array([0, len(found)])))


def text_parts(
    ops: Backend, text: TextBatch, reading: Shingling, start: Numbers, stop: Numbers, count: int
) -> Iterator[tuple[TextBatch, int, int]]:
    """Parts of a document of `count` tokens, a batch, each with its tokens from `start` to before `stop`, int64 [p].

    Yields each part with the tokens and the bytes of the document before: how many tokens of the part come before
    `start`, and where the part begins. A part has one more token on each side, because separators are not a token at
    the ends of a text, but may be one inside.
    """
    first, last = np.maximum(start - 1, 0), np.minimum(stop, count - 1)
    ends = sorted_distinct(np.concatenate([first, last]))
    with ops.use_device():
        bounds = ops.asnumpy(ops.token_bounds(text, reading, ops.asarray(np.zeros_like(ends)), ops.asarray(ends)))
        origin = int(text.offset[0])
        begin, end = (ops.asarray(np.ascontiguousarray(column)) for column in (bounds + origin).T)
        alone = ops.gather(ops.asarray(text.values), begin, end)
        is_there = ops.asnumpy(ops.tokens(TextBatch(alone.values, alone.offset), reading).lengths > 0)
    before = start - first - ~is_there[np.searchsorted(ends, first)]
    low, high = bounds[np.searchsorted(ends, first), 0], bounds[np.searchsorted(ends, last), 1]
    for number in range(len(start)):
        with ops.use_device():
            values = text.values[origin + low[number] : origin + high[number]]
            part = TextBatch(values, ops.asarray(np.array([0, len(values)])))
        yield part, int(before[number]), int(low[number])


def _samples(ops: Backend, runs: Fingerprints, size: int, adjacent: int) -> Samples:
    with ops.use_device():
        chosen = ops.winnow(runs, adjacent)
        row = row_of(runs.offset, chosen)
        place = chosen - runs.offset[:1] + row * size
        # The least of many hashes are small numbers. Mixed, as many of them are in each range of hashes.
        return Samples(mix64(runs.values[chosen]), place, runs.lengths + size)


def repeated_samples(ops: Backend, values: Array, place: Array) -> Array:
    """int64 [c], ascending: the places of the samples uint64 `values` [s] that occur more than once."""
    with ops.use_device():
        return np.sort(ops.collisions(as_digests(values), place).ids)


def windows_near(met: Numbers, start: Numbers, stop: Numbers, tokens: int) -> WindowRuns:
    """The windows whose sample may be at a place in `met` int64 [c], ascending.

    The n documents take the places from `start` to before `stop` [n each], ascending; each place in `met` is in one.
    """
    row = row_of(start, met)
    begin = np.maximum(met - (tokens - sample_size(tokens)), start[row])
    end = np.minimum(met + 1, stop[row] - tokens)  # documents with windows take one place more than tokens
    _, begin, end = merge_ranges(row, begin, end)
    return WindowRuns(begin, end - begin)


def hash_windows(
    ops: Backend, text: TextBatch, base: Numbers, runs: WindowRuns, reading: Shingling, tokens: int, keys: EvidenceKeys
) -> tuple[Array, Array]:
    """uint64 [m], uint64 [m]: two hashes of each window of `runs`, all in documents of the batch, in order.

    The first, public, proposes; the second, secret, proves. Both are of secret hashes of tokens. `base` int64 [n],
    ascending, is the place of the first token of each document.
    """
    return hash_runs(ops, ops.tokens(text, reading, keys), base, runs, tokens, keys)


def hash_runs(
    ops: Backend, found: Tokens, base: Numbers, runs: WindowRuns, tokens: int, keys: EvidenceKeys
) -> tuple[Array, Array]:
    """The hashes of windows, from the hashes of the batch's tokens."""
    row = row_of(base, runs.begin)
    begin, windows = ops.asarray(runs.begin - base[row]), ops.asarray(runs.windows)
    with ops.use_device():
        begin += found.offset[ops.asarray(row)]
        return ops.window_hashes(found, begin, windows, tokens, keys)


def as_digests(values: Array) -> Array:
    """Hashes for `collisions`, which keeps one number for *no digest*; another hash may become equal."""
    return np.minimum(values, np.uint64(NO_DIGEST - 1))


def find_repeats(proposed: Values, proven: Values, place: Numbers, equal: Numbers | None = None) -> Repeats:
    """The windows that occur more than once; hashes uint64 [m], and places int64 [m], ascending; on the host.

    `equal` int64 [m] counts the equal windows that each one represents; by default 1. The results take the memory of
    the other arguments.
    """
    return Repeats(*repeats(proposed, proven, place, equal))


class TokenSpans(NamedTuple):
    """Marked stretches of tokens, ascending and apart: int64 [k] each."""

    start: Numbers  # the place of the first token
    stop: Numbers  # the place after the last token
    first: Numbers  # the place of the equal token of the first occurrence; negative of tokens that do not repeat
    occurrences: Numbers

    def select(self, which: slice | Numbers) -> TokenSpans:
        """Some of the spans."""
        return TokenSpans(*(column[which] for column in self))

    def with_gaps(self, start: Numbers, stop: Numbers, occurrences: Numbers, first: int = -1) -> TokenSpans:
        """The spans, and others between them that do not repeat, in order; their `first` is negative."""
        gaps = start, stop, np.full(len(start), first, np.int64), occurrences
        order = np.argsort(np.concatenate([self.start, start]), kind="stable")
        return TokenSpans(*(np.concatenate(pair)[order] for pair in zip(self, gaps, strict=True)))


def mark(found: Repeats, tokens: int, keep: Keep) -> TokenSpans:
    """The marks of windows of `tokens` tokens."""
    return _mark_next(_marker(tokens, keep), found, FAR)


def _marker(tokens: int, keep: Keep) -> SpanMarker:
    return SpanMarker(tokens, firsts_stay=keep == "first", firsts_mark=keep == "none")


def _mark_next(marker: SpanMarker, found: Repeats, until: int) -> TokenSpans:
    return TokenSpans(*np.ascontiguousarray(marker.add(*found, until).T))


def bridge_gaps(spans: TokenSpans, base: Numbers, most: int) -> TokenSpans:
    """The spans, and each gap of fewer than `most` tokens between two of a document, as a span that does not repeat.

    `base` [n + 1] are places of documents. A gap occurs as often as the rarer of its neighbours. With "first", a first
    occurrence between two marks is as long as a window, so it stays if `most` is no more than that.
    """
    row = np.searchsorted(base, spans.start, side="right")
    size: Numbers = spans.start[1:] - spans.stop[:-1]
    before = np.flatnonzero((size > 0) & (size < most) & (row[1:] == row[:-1]))
    if len(before) == 0:
        return spans
    rarer = np.minimum(spans.occurrences[before], spans.occurrences[before + 1])
    return spans.with_gaps(spans.stop[before], spans.start[before + 1], rarer)


class FinalMarks(NamedTuple):
    """Marks that no later window changes."""

    spans: TokenSpans
    windows: Repeats
    is_unmarked: NDArray[np.bool_]  # whether a window has no marked token


class Marker:
    """`mark` and `bridge_gaps` for windows that come piece by piece."""

    def __init__(self, tokens: int, keep: Keep, bridge: int) -> None:
        self._marker = _marker(tokens, keep)
        self._tokens, self._bridge = tokens, bridge
        none = np.empty(0, np.int64)
        self._windows, self._spans = Repeats(none, none, none), TokenSpans(none, none, none, none)  # not settled

    def add(self, found: Repeats, base: Numbers, until: int = FAR) -> FinalMarks:
        """The next windows before the place `until` that occur more than once.

        `base` int64 [n + 1] are the places of the documents with these windows, and the place after them.
        """
        spans = bridge_gaps(
            _mark_next(self._marker, found, until), base, self._bridge
        )  # no span but the first is before them
        done = slice(len(spans.start) - (until < FAR))  # the last one may go on, or a gap follows
        windows = Repeats(*map(np.concatenate, zip(self._windows, found, strict=True)))
        seen = TokenSpans(*map(np.concatenate, zip(self._spans, spans, strict=True)))
        known = int(np.searchsorted(windows.place, until - self._tokens - self._bridge, side="right"))
        settled = Repeats(*(column[:known] for column in windows))
        apart = np.append(0, seen.stop)[np.searchsorted(seen.start, settled.place + self._tokens)] <= settled.place
        self._windows = Repeats(*(column[known:] for column in windows))
        begin = int(np.searchsorted(seen.stop, int(self._windows.place[0]) if len(self._windows.place) else until))
        self._spans = seen.select(slice(begin, len(self._spans.start) + done.stop))
        return FinalMarks(spans.select(done), settled, apart)
