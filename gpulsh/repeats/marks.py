"""From repeated windows to marked tokens, as spans of places.

"first"    mark the tokens of a repeated window, except tokens in the first of several equal windows
"minimal"  mark the tokens of a repeated window (the rule of AI2's `bsade`)
"none"     mark the tokens of a window that occurs more than once (the rule of Lee et al. 2022)

A token in several such windows follows one of the most frequent (see `gpulsh.backends.repeats`): it takes the first
occurrence and the number of occurrences of that window. All work is on repeated windows.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.repeats import FAR, SpanMarker
from gpulsh.repeats.windows import Repeats

Keep = Literal["first", "minimal", "none"]


class TokenSpans(NamedTuple):
    """Marked stretches of tokens, ascending and apart: int64 [k] each."""

    start: Numbers  # the place of the first token
    stop: Numbers  # the place after the last token
    first: Numbers  # the place of the equal token of the first occurrence; -1 of tokens that do not repeat
    occurrences: Numbers

    def chosen(self, which: slice | Numbers) -> TokenSpans:
        """Some of the spans."""
        return TokenSpans(*(column[which] for column in self))

    def with_gaps(self, start: Numbers, stop: Numbers, occurrences: Numbers) -> TokenSpans:
        """The spans, and others between them that do not repeat, in order."""
        gaps = start, stop, np.full(len(start), -1, np.int64), occurrences
        order = np.argsort(np.concatenate([self.start, start]), kind="stable")
        return TokenSpans(*(np.concatenate(pair)[order] for pair in zip(self, gaps, strict=True)))


def mark(found: Repeats, tokens: int, keep: Keep) -> TokenSpans:
    """The marks of windows of `tokens` tokens."""
    return _added(_marker(tokens, keep), found, FAR)


def _marker(tokens: int, keep: Keep) -> SpanMarker:
    return SpanMarker(tokens, firsts_stay=keep == "first", firsts_mark=keep == "none")


def _added(marker: SpanMarker, found: Repeats, until: int) -> TokenSpans:
    return TokenSpans(*np.ascontiguousarray(marker.add(*found, until).T))


def bridged(spans: TokenSpans, base: Numbers, most: int) -> TokenSpans:
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


class Settled(NamedTuple):
    """Marks that no later window changes."""

    spans: TokenSpans
    windows: Repeats
    apart: NDArray[np.bool_]  # whether a window has no marked token


class Marker:
    """`mark` and `bridged` for windows that come piece by piece."""

    def __init__(self, tokens: int, keep: Keep, bridge: int) -> None:
        self._marker = _marker(tokens, keep)
        self._tokens, self._bridge = tokens, bridge
        none = np.empty(0, np.int64)
        self._windows, self._spans = Repeats(none, none, none), TokenSpans(none, none, none, none)  # not settled

    def add(self, found: Repeats, base: Numbers, until: int = FAR) -> Settled:
        """The next windows before the place `until` that occur more than once.

        `base` int64 [n + 1] are the places of the documents with these windows, and the place after them.
        """
        spans = bridged(_added(self._marker, found, until), base, self._bridge)  # no span but the first is before them
        done = slice(len(spans.start) - (until < FAR))  # the last one may go on, or a gap follows
        windows = Repeats(*map(np.concatenate, zip(self._windows, found, strict=True)))
        seen = TokenSpans(*map(np.concatenate, zip(self._spans, spans, strict=True)))
        known = int(np.searchsorted(windows.place, until - self._tokens - self._bridge, side="right"))
        settled = Repeats(*(column[:known] for column in windows))
        apart = np.append(0, seen.stop)[np.searchsorted(seen.start, settled.place + self._tokens)] <= settled.place
        self._windows = Repeats(*(column[known:] for column in windows))
        begin = int(np.searchsorted(seen.stop, int(self._windows.place[0]) if len(self._windows.place) else until))
        self._spans = seen.chosen(slice(begin, len(self._spans.start) + done.stop))
        return Settled(spans.chosen(done), settled, apart)
