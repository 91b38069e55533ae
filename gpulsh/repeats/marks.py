"""From windows that repeat to marked tokens, as spans of places.

"first"    a token is marked if it is in a window that repeats and in no window that is the first of several equal ones
"minimal"  a token is marked if it is in a window that repeats (the rule of AI2's `bsade`)
"none"     a token is marked if it is in a window that occurs more than once (the rule of Lee et al. 2022)

A token of several such windows follows the last of them that begins at or before it: that window's first occurrence is
the token's. All work is on the windows that repeat: a document of which little repeats costs little.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from gpulsh.arrays import Array
from gpulsh.repeats.windows import Repeats

Keep = Literal["first", "minimal", "none"]

_FAR = 1 << 62  # beyond all places


class TokenSpans(NamedTuple):
    """Marked stretches of tokens, ascending and apart: int64 [k] each.

    A stretch ends where the marks end, and where the first occurrence or the number of occurrences changes.
    """

    start: Array  # the place of the first token
    stop: Array  # the place after the last token
    first: Array  # the place of the equal token of the first occurrence; -1 of tokens that do not repeat
    occurrences: Array


def mark(found: Repeats, tokens: int, keep: Keep) -> TokenSpans:
    """The marks that windows of `tokens` tokens give."""
    is_first = found.first == found.place
    chosen = np.ones_like(is_first) if keep == "none" else ~is_first
    place, first, occurrences = found.place[chosen], found.first[chosen], found.occurrences[chosen]
    start: Array = place
    stop: Array = place + tokens
    stop[:-1] = np.minimum(stop[:-1], place[1:])  # a later window takes over
    if keep == "first":
        far = np.full(1, _FAR, np.int64, like=place)
        kept = np.concatenate([-far, found.place[is_first], far])
        last = np.cumsum(is_first)[chosen]  # of the first occurrences, the last that begins before the window
        start, stop = np.maximum(start, kept[last] + tokens), np.minimum(stop, kept[last + 1])
    left = start < stop
    start, stop, shift, occurrences = start[left], stop[left], (first - place)[left], occurrences[left]
    fresh = np.ones_like(start, bool)
    fresh[1:] = (start[1:] != stop[:-1]) | (shift[1:] != shift[:-1]) | (occurrences[1:] != occurrences[:-1])
    stop = stop[np.append(fresh[1:], np.ones_like(fresh[:1]))]
    start = start[fresh]
    return TokenSpans(start, stop, start + shift[fresh], occurrences[fresh])


def bridged(spans: TokenSpans, base: Array, most: int) -> TokenSpans:
    """The spans, and each gap of fewer than `most` tokens between two of a document, as a span that does not repeat.

    `base` [n + 1] are places of documents. A gap occurs as often as the rarer of its neighbours. With "first", a first
    occurrence between two marks is as long as a window, so it stays if `most` is no more than that.
    """
    row: Array = np.searchsorted(base, spans.start, side="right")
    size: Array = spans.start[1:] - spans.stop[:-1]
    before = np.flatnonzero((size > 0) & (size < most) & (row[1:] == row[:-1]))
    if len(before) == 0:
        return spans
    gaps = TokenSpans(
        spans.stop[before],
        spans.start[before + 1],
        np.full(len(before), -1, np.int64),
        np.minimum(spans.occurrences[before], spans.occurrences[before + 1]),
    )
    order = np.argsort(np.concatenate([spans.start, gaps.start]), kind="stable")
    return TokenSpans(*(np.concatenate(pair)[order] for pair in zip(spans, gaps, strict=True)))
