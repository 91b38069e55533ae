"""simhash: one-bits are counted at 64 places at once; each word holds a digit of all 64 counts (bit slices).

Sixteen hashes go through a tree of carry-save adders (Harley, Seal; Warren, *Hacker's Delight*, 5-2), and then one word
counts sixteens: a hash takes five instructions instead of 64 counters. Before a digit overflows, the counts are added
to 64 plain ones. Hashing in a loop of its own lets the compiler make vectors.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpulsh.arrays import Fingerprints, Numbers, TextBatch, Words
from gpulsh.backends.cpu.kernel import inlined, kernel, subroutine
from gpulsh.backends.cpu.shingle import TextPass, set_rows
from gpulsh.backends.cpu.threads import SCRATCH, Room, Threads
from gpulsh.backends.cpu.vectors import leading_zeros, mix64
from gpulsh.params import Shingling
from gpulsh.ragged import row_ranges, sorted_distinct

CHUNK_SHINGLES = 1 << 16

_U = np.uint64
_ONE, _NONE = _U(1), _U(0)
_FREE = np.uint32(0)
_TREE = 16  # hashes per tree
_FULL = 15 * _TREE  # hashes that eight binary digits can count


@inlined
def _add(a, b, c):
    """The sum of three bits at each place: the carry, and the digit."""
    u = a ^ b
    return (a & b) | (u & c), u ^ c


@subroutine
def _count(values, key, hashes, counts):
    """Add to `counts` int64 [64] how many of the values' hashes have each bit; `hashes` has room for `_FULL`."""
    for start in range(0, values.size, _FULL):
        here = values[start : start + _FULL]
        for i in range(here.size):
            hashes[i] = mix64(here[i] ^ key)
        trees = (here.size + _TREE - 1) // _TREE
        for i in range(here.size, trees * _TREE):
            hashes[i] = _NONE
        d1, d2, d4, d8, d16, d32, d64, d128 = _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE
        for tree in range(trees):
            x = hashes[tree * _TREE : tree * _TREE + _TREE]
            a2, d1 = _add(d1, x[0], x[1])
            b2, d1 = _add(d1, x[2], x[3])
            a4, d2 = _add(d2, a2, b2)
            a2, d1 = _add(d1, x[4], x[5])
            b2, d1 = _add(d1, x[6], x[7])
            b4, d2 = _add(d2, a2, b2)
            a8, d4 = _add(d4, a4, b4)
            a2, d1 = _add(d1, x[8], x[9])
            b2, d1 = _add(d1, x[10], x[11])
            a4, d2 = _add(d2, a2, b2)
            a2, d1 = _add(d1, x[12], x[13])
            b2, d1 = _add(d1, x[14], x[15])
            b4, d2 = _add(d2, a2, b2)
            b8, d4 = _add(d4, a4, b4)
            carry, d8 = _add(d8, a8, b8)
            d16, carry = d16 ^ carry, d16 & carry
            d32, carry = d32 ^ carry, d32 & carry
            d64, carry = d64 ^ carry, d64 & carry
            d128 ^= carry
        for bit in range(64):
            s = _U(bit)
            low = (d1 >> s & _ONE) + _U(2) * (d2 >> s & _ONE) + _U(4) * (d4 >> s & _ONE) + _U(8) * (d8 >> s & _ONE)
            high = (d16 >> s & _ONE) + _U(2) * (d32 >> s & _ONE) + _U(4) * (d64 >> s & _ONE)
            high += _U(8) * (d128 >> s & _ONE)
            counts[bit] += np.int64(low + _U(16) * high)


@inlined
def _majority(counts, total):
    bits = _NONE
    for bit in range(64):
        bits |= _U(2 * counts[bit] > total) << _U(bit)
    return bits


@subroutine
def _distinct(values, table, found):
    """Put each distinct value into `found` once. Returns how many, or -1 if values that are not hashes take too long.

    First each value goes to the slot of its hash, without a branch. Values that find another there probe further; all
    mispredicted branches are there. `table` uint32 has the number in `found` of each value, and room for eight a value,
    and 16; `found` has room for two a value.
    """
    count = values.size
    shift = leading_zeros(_U(max(4 * count, 16) - 1))
    bits, mask = 64 - np.int64(shift), ~_NONE >> shift
    for slot in range(1 << bits):
        table[slot] = _FREE
    written, left = _NONE, _NONE
    others = found[count:]
    for value in values:
        slot = value >> shift
        held = table[slot]
        free = _U(held == _FREE)
        found[written] = value
        others[left] = value
        written += free
        left += _ONE - free
        table[slot] = np.uint32(written) if held == _FREE else held
    steps = 0
    for value in others[: np.int64(left)]:
        slot = value >> shift
        held = table[slot]
        while held != _FREE and found[held - np.uint32(1)] != value:
            slot = slot + _ONE & mask
            held = table[slot]
            steps += 1
        if steps > 4 * count:
            return -1
        if held == _FREE:
            found[written] = value
            written += _ONE
            table[slot] = np.uint32(written)
    return np.int64(written)


@kernel
def _simhash(values, offset, keys, distinct, table, found, hashes, counts, out):
    """The first row whose distinct values were not found, or -1."""
    for row in range(offset.size - 1):
        here = values[offset[row] : offset[row + 1]]
        if distinct:
            size = _distinct(here, table, found)
            if size < 0:
                return row
            here = found[:size]
        for word in range(keys.size):
            counts[:] = 0
            _count(here, keys[word], hashes, counts)
            out[row, word] = _majority(counts, here.size)
    return -1


@kernel
def _counts(values, keys, hashes, counts):
    """`_count` for each of the `keys`, in `counts` int64 [words, 64]."""
    for word in range(keys.size):
        _count(values, keys[word], hashes, counts[word])


@kernel
def _weighted(values, weights, offset, keys, counts, out):
    for row in range(offset.size - 1):
        for word in range(keys.size):
            counts[:] = 0
            total = np.int64(0)
            for i in range(offset[row], offset[row + 1]):
                hashed, weight = mix64(values[i] ^ keys[word]), weights[i]
                total += weight
                for bit in range(64):
                    counts[bit] += weight & -np.int64(hashed >> _U(bit) & _ONE)
            out[row, word] = _majority(counts, total)


def _rows(rows: Fingerprints, keys: Words, distinct: bool, out: Words) -> None:
    values, offset = rows.values, rows.offset
    longest = int(np.diff(offset).max(initial=0)) if distinct else 0
    table, found = SCRATCH.take("table", 4 * longest + 8), SCRATCH.take("found", 2 * longest)
    room = table.view(np.uint32), found, np.empty(_FULL, np.uint64), np.zeros(64, np.int64)  # hashes, counts
    start = 0
    while (stuck := _simhash(values, offset[start:], keys, distinct, *room, out[start:])) >= 0:
        start += stuck + 1
        row = sorted_distinct(values[offset[start - 1] : offset[start]])
        out[start - 1] = _simhash_pieces([row], keys)


def _simhash_pieces(pieces: Iterable[Words], keys: Words) -> Words:
    """uint64 [words] of a row whose values come in pieces."""
    hashes, counts, total = np.empty(_FULL, np.uint64), np.zeros((len(keys), 64), np.int64), 0
    for values in pieces:
        total += len(values)
        _counts(values, keys, hashes, counts)
    bits = (2 * counts > total).astype(np.uint64) << np.arange(64, dtype=np.uint64)
    words: Words = np.bitwise_or.reduce(bits, axis=1)
    return words


def simhash(threads: Threads, fingerprints: Fingerprints, keys: Words, weights: Numbers | None = None) -> Words:
    every = fingerprints.moved(np.ascontiguousarray)
    weights = None if weights is None else np.ascontiguousarray(weights)
    bits = np.empty((len(fingerprints), len(keys)), np.uint64)

    def work(start: int, stop: int) -> None:
        rows = every.slice(start, stop)
        if weights is None:
            _rows(rows, keys, False, bits[start:stop])
        else:
            _weighted(rows.values, weights, rows.offset, keys, np.zeros(64, np.int64), bits[start:stop])

    threads.map(work, row_ranges(every.offset, CHUNK_SHINGLES))
    return bits


def text_simhash(threads: Threads, text: TextBatch, shingling: Shingling, keys: Words, distinct: bool) -> Words:
    texts, bits = TextPass(threads, text, shingling), np.empty((len(text), len(keys)), np.uint64)

    def work(start: int, stop: int) -> None:
        if texts.is_giant(start, stop):
            pieces = iter([set_rows(texts, start, stop, Room())]) if distinct else texts.pieces(start, stop)
            bits[start] = _simhash_pieces((rows.values for rows in pieces), keys)
        else:
            _rows(texts.small_fingerprints(start, stop), keys, distinct, bits[start:stop])

    texts.map(work)
    return bits
