"""Windows that repeat, for `gpulsh.backends.repeats`."""

from __future__ import annotations

from gpulsh.backends.cpu.kernel import kernel, subroutine
from gpulsh.backends.cpu.vectors import prefetch

AHEAD = 24  # windows
FAR = 1 << 62  # beyond all places


@kernel
def find_groups(ids, offset, proofs, first):
    """Set `first` [m], which is -1, of windows with equals: minus their count for the first, its number for the others.

    How many windows have equals. The windows of a bucket lie apart in memory, so they are fetched ahead.
    """
    found = 0
    for bucket in range(offset.size - 1):
        begin, end = offset[bucket], offset[bucket + 1]
        window = ids[begin]
        proof, same = proofs[window], True
        for i in range(begin, end):
            if i + AHEAD < ids.size:
                prefetch(proofs.ctypes.data + 8 * ids[i + AHEAD])
                prefetch(first.ctypes.data + 8 * ids[i + AHEAD])
            same &= proofs[ids[i]] == proof
            first[ids[i]] = window
        if same:
            first[window] = begin - end
            found += end - begin
        else:
            found += _split(ids[begin:end], proofs, first)
    return found


@subroutine
def _split(ids, proofs, first):
    """The same for one bucket of windows with different proofs."""
    for i in range(ids.size):
        first[ids[i]] = -1
    found = 0
    for begin in range(ids.size):
        window, count = ids[begin], 0
        if first[window] == -1:
            for i in range(begin, ids.size):
                if proofs[ids[i]] == proofs[window]:
                    first[ids[i]] = window
                    count += 1
            first[window] = -count
            found += count if count > 1 else 0
    return found


@kernel
def fill_repeats(first, place, places, firsts, occurrences):
    """Fill arrays [r] from `first` of `find_groups`."""
    found = 0
    for window in range(first.size):
        if first[window] != -1:
            origin = window if first[window] < 0 else first[window]
            places[found], firsts[found], occurrences[found] = place[window], place[origin], -first[origin]
            found += 1


@kernel
def find_spans(place, first, occurrences, size, firsts_stay, firsts_mark, room, spans):
    """Fill `spans`; how many there are. `room` holds windows that may be followed, each less frequent than the last."""
    count, head, tail = 0, 0, 0
    at, stays = 0, 0  # tokens before these are decided, or stay
    shift, frequent, reach = 0, 0, 0  # of what the last token follows
    for i in range(place.size + 1):
        until = place[i] if i < place.size else FAR
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
    return count
