"""Windows of tokens that repeat: the first of equal ones, and which tokens they mark. On the host, for every backend.

Each step of both depends on the one before. The kernels of `gpulsh.backends.cpu.repeats` load Numba,
so they are imported when they are needed.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Numbers, Values
from gpulsh.errors import BackendError

MAX_WINDOWS = 1 << 32
FAR = 1 << 62  # beyond all places


def groups(proposed: Values, proven: Values, equal: Numbers | None = None) -> Numbers:
    """int64 [m]: for a window that equals an earlier one, the number of the first; for others, minus their occurrences.

    Windows are equal if both of their hashes are, uint64 [m] each. `equal` int64 [m] counts the windows that each one
    represents; by default 1.

    >>> groups(np.array([7, 5, 7], np.uint64), np.array([1, 1, 1], np.uint64))
    array([-2, -1,  0])
    """
    from gpulsh.backends.cpu.repeats import find_groups

    if len(proposed) >= MAX_WINDOWS:
        raise BackendError(
            f"{len(proposed)} windows may repeat, and {MAX_WINDOWS - 1} can be compared at once; use"
            " `gpulsh passages`, which compares them part by part"
        )
    first = np.full(len(proposed), -1) if equal is None else -equal
    find_groups(proposed, proven, np.zeros(1 << (len(proposed) * 5 // 4 + 1).bit_length(), np.uint32), first)
    return first


def repeats(
    proposed: Values, proven: Values, place: Numbers, equal: Numbers | None = None
) -> tuple[Numbers, Numbers, Numbers]:
    """int64 [r] each: of the windows of `groups` that occur more than once, `place`, the place of the first equal one,
    and their number.

    `place` [m] ascends. The results reuse the memory of the arguments, because windows may fill most of the memory.

    >>> one, other = np.array([7, 5, 7, 8], np.uint64), np.array([1, 1, 1, 1], np.uint64)
    >>> repeats(one, other, np.array([10, 20, 30, 40]))
    (array([10, 30]), array([10, 10]), array([2, 2]))
    """
    from gpulsh.backends.cpu.repeats import fill_repeats

    found = place, proposed.view(np.int64), proven.view(np.int64)
    count = fill_repeats(groups(proposed, proven, equal), *found)
    place, first, occurrences = (column[:count] for column in found)
    return place, first, occurrences


class SpanMarker:
    """The spans that windows of `size` tokens mark; windows that occur more than once come piece by piece.

    Each window marks its tokens. The first of several equal ones does so if `firsts_mark`, and otherwise its tokens
    stay without a mark if `firsts_stay`.

    Each token follows one of the windows that mark it: the window of the token before, or one that continues it, unless
    another occurs more often. Then it follows the last of the most frequent windows. A span ends where the number of
    occurrences changes, or the distance from the first occurrence.

    >>> marker = SpanMarker(3, firsts_stay=True, firsts_mark=False)
    >>> marker.add(np.array([0, 9]), np.array([0, 0]), np.array([2, 2]), FAR).tolist()
    [[9, 12, 0, 2]]
    """

    def __init__(self, size: int, firsts_stay: bool, firsts_mark: bool) -> None:
        self._given = size, firsts_stay, firsts_mark
        self._state = np.zeros(9, np.int64)
        self._waiting = np.empty((3, 0), np.int64)  # windows that tokens of the next ones may follow
        self._last = np.empty((0, 4), np.int64)

    def add(self, place: Numbers, first: Numbers, occurrences: Numbers, until: int) -> Numbers:
        """int64 [k, 4]: start, stop, first occurrence and occurrences of the spans of tokens before `until`.

        The windows int64 [r] each are all that begin before `until` after those given before, ascending by place. The
        last span may go on: the next call gives it again.
        """
        from gpulsh.backends.cpu.repeats import find_spans

        windows = [place, first, occurrences]
        if self._waiting.size:
            windows = [np.concatenate(pair) for pair in zip(self._waiting, windows, strict=True)]
        state, most = self._state, len(windows[0]) + len(self._last)
        spans, room = np.empty((most, 4), np.int64), np.empty(len(windows[0]) + 1, np.int64)
        spans[: len(self._last)] = self._last
        state[[0, 2, 8]] = len(self._last), len(self._waiting[0]), until
        find_spans(*windows, *self._given, state, room, spans)
        count, head, tail = state[:3].tolist()
        self._waiting = np.stack([column[room[head:tail]] for column in windows])
        self._last = spans[max(count - 1, 0) : count].copy()
        return spans[:count].copy()
