"""Signatures to components: band_digests, collisions, candidates, components.

band_digests: a thread per digest of signatures in memory; `sign` makes digests of minima in registers instead.

collisions: a filter leaves the digests that may repeat, a range of digests at a time; a sort of keys groups them.
CuPy sorts integers with Thrust's stable radix sort, a pass for each byte of the key. `argsort` carries a copy of the
keys and 64-bit positions through every pass, in double buffers of 32 bytes per item. Here the position replaces the
lower bits of a digest: one 64-bit key is sorted, in 16 bytes per item.

candidates: pairs as 64-bit keys, sorted and reduced a span at a time, so that repeats never pile up.

components: lock-free union-find over all edges at once, then each id follows its parents to the root; no rounds.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from gpulsh.arrays import Array, Buckets
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.parts import union_of
from gpulsh.backends.protocol import NO_DIGEST
from gpulsh.errors import BackendError
from gpulsh.params import BandShape
from gpulsh.ragged import distinct, expand_ranges, offsets, sorted_distinct

SLOTS = 8  # a digest, at least; two bits each
MAX_MEMBERS = 2**32  # distinct ids in buckets; a key holds two of their numbers


def band_digests(machine: Machine, signatures: Array, shape: BandShape) -> Array:
    documents, bands = len(signatures), shape.bands
    digests = machine.arrays.empty((documents, bands), np.uint64)
    kernel = "wide_band_digests" if signatures.dtype == np.uint64 else "band_digests"
    given = signatures, documents, signatures.shape[1], bands, shape.rows, digests
    machine.run("band_digests", documents * bands, *given, kernel=kernel)
    return digests


def collisions(machine: Machine, digests: Array, ids: Array) -> Buckets:
    """Extra memory: 2 to 4 bytes per digest of a range, and about 45 for each that may repeat."""
    xp = machine.arrays
    digests, ids = xp.ascontiguousarray(digests), xp.ascontiguousarray(ids)  # once for all ranges
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
    """Digests in [lowest, highest], about `expected`, that repeat, with few that do not, and their ids, in order."""
    xp, threads = machine.arrays, machine.geometry.threads
    count = len(ids)
    slots = 1 << (SLOTS * expected).bit_length()
    blocks = -(-count // threads)
    table = xp.zeros(max(slots // 16, 1), np.uint32)
    members = xp.zeros(blocks * -(-threads // 32), np.uint32)
    sizes = xp.zeros(blocks, np.uint32)
    range_of_digests = digests, count, lowest, highest, slots - 1
    machine.run("collisions", count, *range_of_digests, table, kernel="collisions_mark")
    machine.run("collisions", count, *range_of_digests, table, members, sizes, kernel="collisions_members")
    before = offsets(sizes)
    taken = machine.number(before[-1])
    taken_digests, taken_ids = xp.empty(taken, np.uint64), xp.empty(taken, np.int64)
    if taken:
        given = digests, ids, members, before, taken_digests, taken_ids
        machine.run("collisions", count, *given, kernel="collisions_take")
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
    order, digests = _sort_digests(machine, digests)
    ids = ids[order]
    del order
    same = digests[1:] == digests[:-1]
    none = xp.zeros(1, bool)
    like_previous = xp.concatenate((none, same))
    member = like_previous | xp.concatenate((same, none))
    return ids[member], xp.flatnonzero(~like_previous[member])


def _sort_digests(machine: Machine, digests: Array) -> tuple[Array, Array]:
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
        upper, wanted = digests & ~low, distinct(unsorted & ~low)
        starts = xp.searchsorted(upper, wanted, side="left")
        places = expand_ranges(starts, xp.searchsorted(upper, wanted, side="right") - starts)
        again = places[xp.argsort(digests[places], kind="stable")]
        order[places], digests[places] = order[again], digests[again]
    return order, digests


def candidates(machine: Machine, buckets: Buckets, first: tuple[int, int] | None = None) -> Array:
    """Extra memory: 16 bytes per distinct pair twice, and about 24 per pair of one span."""
    xp, geometry = machine.arrays, machine.geometry
    sizes = xp.diff(buckets.offset)
    ends = xp.cumsum(sizes * (sizes - 1) // 2)
    total = machine.number(ends[-1]) if len(buckets) else 0
    members, names = buckets.ids, None  # a key holds two numbers of 32 bits
    if len(members) and machine.number(members.max()) >= 2**32:
        names = sorted_distinct(members)
        if len(names) > MAX_MEMBERS:
            raise BackendError(
                f"{len(names)} documents are in buckets, {MAX_MEMBERS} fit on a device; give fewer at once"
            )
        members = xp.searchsorted(names, members)
        if first is not None:  # numbers ascend with the ids
            bounds = xp.searchsorted(names, xp.asarray(np.array(first, np.int64)))
            lowest, beyond = machine.numbers(bounds[0], bounds[1])
            first = lowest, beyond
    members = members.astype(np.uint32)
    low, high = (np.uint64(max(bound, 0)) for bound in first or (0, 2**32))

    def keys_of_span(start: int) -> Array:
        stop = min(start + geometry.sort_span, total)
        span = xp.empty(stop - start, np.uint64)
        machine.run("candidates", len(span), members, buckets.offset, len(buckets), ends, start, stop, span)
        number = span >> np.uint64(32)
        wanted = number != (span & np.uint64(0xFFFFFFFF))  # an id may be twice in a bucket
        return span[wanted & (number >= low) & (number < high)]

    none = xp.empty(0, np.uint64)
    keys = union_of(chain([none], map(keys_of_span, range(0, total, geometry.sort_span))))
    pairs = xp.empty((len(keys), 2), np.int64)
    pairs[:, 0] = keys >> np.uint64(32)
    keys &= np.uint64(0xFFFFFFFF)
    pairs[:, 1] = keys
    return pairs if names is None else names[pairs]


def components(machine: Machine, count: int, pairs: Array) -> Array:
    """Extra memory: 8 bytes an id, the forest that becomes the labels."""
    parent = machine.arrays.arange(count, dtype=np.uint64)
    machine.run("components", len(pairs), pairs, len(pairs), parent, kernel="components_hook")
    machine.run("components", count, count, parent, kernel="components_label")
    return parent.view(np.int64)
