"""collisions: a filter leaves the digests that may repeat, a range of digests at a time; a sort of keys groups them.

CuPy sorts integers with Thrust's stable radix sort, a pass for each byte of the key; `argsort` carries a copy of the
keys and 64-bit positions through every pass, 32 bytes an item with the second halves of its buffers. Here the position
takes the place of a digest's lower bits, so that one key of 64 bits is sorted, in 16. Several devices sort a range of
the digests each.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gpulsh.arrays import Array, Buckets
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.memory import wait
from gpulsh.backends.protocol import NO_DIGEST
from gpulsh.ragged import first_of_runs

SLOTS = 8  # a digest, at least; two bits each


def collisions(machine: Machine, digests: Array, ids: Array) -> Buckets:
    """Memory beside the arguments: 2 to 4 bytes a digest of a range, and about 45 for each that may repeat."""
    xp = machine.arrays
    digests, ids = xp.ascontiguousarray(digests), xp.ascontiguousarray(ids)
    ranges = -(-len(ids) // machine.geometry.sort_span)
    # Digests are uniform between the least and the greatest, so that even ranges hold like many.
    least, most = machine.numbers(digests.min(), digests.max()) if ranges > 1 else (0, 2**64 - 1)
    span = most + 1 - least
    found: list[Array] = [xp.empty(0, np.int64)]
    starts: list[Array] = []
    total = 0
    for number in range(ranges):
        lowest = least + span * number // ranges
        highest = min(least + span * (number + 1) // ranges - 1, NO_DIGEST - 1)
        if highest < lowest:  # there are more ranges than possible digests, or no digest at all
            continue
        part, first = _grouped(machine, digests, ids, lowest, highest, -(-len(ids) // ranges))
        found.append(part)
        starts.append(first + np.int64(total))
        total += len(part)
    starts.append(xp.full(1, total, np.int64))
    return Buckets(xp.concatenate(found), xp.concatenate(starts))


def may_repeat(
    machine: Machine, digests: Array, ids: Array, lowest: int, highest: int, expected: int
) -> tuple[Array, Array]:
    """Digests in [lowest, highest] that repeat, with few that do not, and their ids, in the given order.

    About `expected` digests are in that range.
    """
    xp, threads = machine.arrays, machine.geometry.threads
    count = len(ids)
    slots = 1 << (SLOTS * expected).bit_length()
    blocks = -(-count // threads)
    table = xp.zeros(max(slots // 16, 1), np.uint32)
    members = xp.zeros(blocks * -(-threads // 32), np.uint32)
    sizes = xp.zeros(blocks, np.uint32)
    range_of_digests = (digests, np.int64(count), np.uint64(lowest), np.uint64(highest), np.uint64(slots - 1))
    machine.run("collisions", "collisions_mark", count, threads, *range_of_digests, table)
    machine.run("collisions", "collisions_members", count, threads, *range_of_digests, table, members, sizes)
    before = machine.exclusive(sizes)
    taken = machine.number(before[-1])
    taken_digests, taken_ids = xp.empty(taken, np.uint64), xp.empty(taken, np.int64)
    if taken:
        machine.run(
            *("collisions", "collisions_take", count, threads),
            *(digests, ids, members, before, taken_digests, taken_ids),
        )
    return taken_digests, taken_ids


def _grouped(
    machine: Machine, digests: Array, ids: Array, lowest: int, highest: int, expected: int
) -> tuple[Array, Array]:
    """The ids of repeated digests in [lowest, highest], by (digest, id), and where the ids of each digest begin."""
    xp = machine.arrays
    digests, ids = may_repeat(machine, digests, ids, lowest, highest, expected)
    if len(ids) == 0:
        return ids, xp.empty(0, np.int64)
    if not machine.number((ids[1:] >= ids[:-1]).all()):  # usually ids ascend already, which saves a sort
        order = xp.argsort(ids, kind="stable")
        digests, ids = digests[order], ids[order]
    order, digests = _sorted(machine, digests)
    ids = ids[order]
    del order
    same = digests[1:] == digests[:-1]
    none = xp.zeros(1, bool)
    like_previous = xp.concatenate((none, same))
    member = like_previous | xp.concatenate((same, none))
    return ids[member], xp.flatnonzero(~like_previous[member])


def _sorted(machine: Machine, digests: Array) -> tuple[Array, Array]:
    """The int64 places of the digests in a stable order, and the digests in it."""
    xp = machine.arrays
    low = np.uint64((1 << (len(digests) - 1).bit_length()) - 1)
    keys = digests & ~low
    keys |= xp.arange(len(digests), dtype=np.uint64)
    keys.sort()
    keys &= low
    order = keys.view(np.int64)
    digests = digests[order]
    # Digests that differ only in the lower bits are still in the given order. Such runs are few; sort them again.
    differs = digests[1:] ^ digests[:-1]
    unsorted = digests[1:][(differs != np.uint64(0)) & (differs <= low)]
    if len(unsorted):
        places = _runs(machine, digests & ~low, unsorted & ~low)
        again = places[xp.argsort(digests[places], kind="stable")]
        order[places], digests[places] = order[again], digests[again]
    return order, digests


def _runs(machine: Machine, ascending: Array, wanted: Array) -> Array:
    """int64: the places in `ascending` of the values `wanted`, which ascend and may repeat."""
    xp = machine.arrays
    wanted = wanted[first_of_runs(wanted)]
    starts = xp.searchsorted(ascending, wanted, side="left")
    before = machine.exclusive(xp.searchsorted(ascending, wanted, side="right") - starts)
    total = machine.number(before[-1])
    return xp.arange(total, dtype=np.int64) + (starts - before[:-1])[machine.row_of(before, 0, total)]


def collisions_by_range(machines: Sequence[Machine], digests: Array, ids: Array) -> Buckets:
    """`collisions` of arrays on the first device: each device takes a range, the first collects the buckets."""
    first, xp = machines[0], machines[0].arrays
    count = len(machines)
    range_of = digests // np.uint64(-(-(2**64) // count))
    parts = [(digests[range_of == np.uint64(i)], ids[range_of == np.uint64(i)]) for i in range(count)]
    wait(xp)  # other devices know nothing of this one's streams

    def on(machine: Machine, part: tuple[Array, Array]) -> Buckets:
        with machine.here():
            moved = [machine.arrays.asarray(array) for array in part]
            found = collisions(machine, *moved)
            wait(machine.arrays)
            return found

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(on, machines, parts))
    with first.here():
        members = [xp.asarray(buckets.ids) for buckets in found]
        offsets = [xp.asarray(buckets.offset) for buckets in found]
        starts = np.cumsum([0, *map(len, members)])
        moved = [offset[1:] + np.int64(start) for offset, start in zip(offsets, starts, strict=False)]
        joined = Buckets(xp.concatenate(members), xp.concatenate([offsets[0][:1], *moved]))
        wait(xp)  # before the other devices' arrays are released
    return joined
