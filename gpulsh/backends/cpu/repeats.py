"""Windows that repeat, for `gpulsh.backends.repeats`."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.vectors import prefetch

AHEAD = 24  # windows
_ONE = np.uint64(1)


@kernel
def find_groups(proposed, proven, table, first):
    """Set `first` [m] of windows that equal an earlier one to that one's number.

    `first` has minus the occurrences of each window. The first of equal windows then gets minus the sum of them all.
    `table` uint32 [2^b] > m, of zeros, gets the number of each first window, plus 1. Most passages that repeat are
    longer than a window. So after a window with an equal, the next window is first compared with the one behind that
    equal. Few windows are looked up, and their cells are fetched ahead.
    """
    follows, mask = -1, np.uint64(table.size - 1)
    for window in range(first.size):
        if window + AHEAD < first.size:
            prefetch(table.ctypes.data + 4 * np.int64(proposed[window + AHEAD] & mask))
            other = np.int64(table[proposed[window + AHEAD // 2] & mask]) - 1
            if other >= 0:
                prefetch(proposed.ctypes.data + 8 * other)
                prefetch(proven.ctypes.data + 8 * other)
        proof, equal, occurrences = proven[window], -1, -first[window]
        if follows >= 0 and proposed[follows] == proposed[window] and proven[follows] == proof:
            equal = follows
        else:
            cell = proposed[window] & mask
            while table[cell] != 0:
                other = np.int64(table[cell]) - 1
                if proposed[other] == proposed[window] and proven[other] == proof:
                    equal = other
                    break
                cell = (cell + _ONE) & mask
            else:
                table[cell] = window + 1
        follows = -1
        if equal >= 0:
            follows = equal + 1
            origin = first[equal] if first[equal] >= 0 else equal
            first[origin] -= occurrences
            first[window] = origin


@kernel
def fill_repeats(first, place, firsts, occurrences):
    """Make arrays [r] of those [m] by `first` of `find_groups`, which gets the numbers of first windows in them; r."""
    found = 0
    for window in range(first.size):
        if first[window] == -1:
            continue
        place[found] = place[window]
        if first[window] < 0:
            firsts[found], occurrences[found] = place[found], -first[window]
            first[window] = found
        else:
            origin = first[first[window]]
            firsts[found], occurrences[found] = place[origin], occurrences[origin]
        found += 1
    return found


@kernel
def find_spans(place, first, occurrences, size, firsts_stay, firsts_mark, state, room, spans):
    """Fill `spans` [k, 4] with the tokens before the last number of `state` int64 [9], kept from call to call.

    Its other numbers are: filled spans; `head` and `tail`; the places before which tokens are decided, or stay; and the
    distance, the occurrences and the end of the window that the last token follows. `room` [head : tail] holds
    windows that may be followed, each less frequent than the last: at first the first `tail` ones.
    """
    count, head, tail, at, stays = state[0], 0, state[2], state[3], state[4]
    shift, frequent, reach = state[5], state[6], state[7]
    for i in range(tail):
        room[i] = i
    for i in range(tail, place.size + 1):
        until = place[i] if i < place.size else state[8]
        while True:
            token = max(at, stays)
            while head < tail and place[room[head]] + size <= token:
                head += 1
            if token >= until or head == tail:
                break
            window = room[head]
            stop = min(until, place[window] + size)
            if token < reach and frequent == occurrences[window]:
                stop = min(stop, reach)
            else:
                shift, frequent = first[window] - place[window], occurrences[window]
                reach = place[window] + size
            last = count - 1
            joins = count > 0 and spans[last, 1] == token and spans[last, 3] == frequent
            if joins and spans[last, 2] - spans[last, 0] == shift:
                spans[last, 1] = stop
            else:
                spans[count, 0], spans[count, 1], spans[count, 2], spans[count, 3] = (
                    token,
                    stop,
                    token + shift,
                    frequent,
                )
                count += 1
            at = stop
        if i == place.size:
            break
        at = max(at, until)
        if first[i] == place[i] and not firsts_mark:
            if firsts_stay:
                stays = place[i] + size
            continue
        while head < tail and occurrences[room[tail - 1]] <= occurrences[i]:
            tail -= 1
        room[tail] = i
        tail += 1
        if place[i] <= reach and first[i] - place[i] == shift and occurrences[i] == frequent:
            reach = place[i] + size
    state[0], state[1], state[2], state[3], state[4] = count, head, tail, at, stays
    state[5], state[6], state[7] = shift, frequent, reach
