"""Weighted rows: occurrences, weighted_overlap, weighted_minhash, kleinberg_tardos.

Rows are sorted and pairs of rows merged. Sketches draw darts for one row at a time, up to a rank by which probably all
bins are hit; `gpulsh.backends.darts` defines darts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, WeightedFingerprints
from gpulsh.backends import darts, protocol
from gpulsh.backends.cpu.kernel import kernel, subroutine
from gpulsh.backends.cpu.rows import unique
from gpulsh.backends.cpu.threads import Threads, ranges_of_size
from gpulsh.backends.cpu.vectors import leading_zeros, mix64
from gpulsh.backends.darts import MIN_EXPONENT, MIN_OF_ROW, RANK_BIAS, RANK_BITS, Streams, logarithms
from gpulsh.ragged import row_ranges

CHUNK_SHINGLES = 1 << 16
CHUNK_PAIRS = 2048
WEIGHTED_SHINGLES = 1 << 14
ROWS_AT_ONCE = 64
LEVELS = 24  # of a weight
ROW_LEVELS = 32  # of all of a dense row
UNIT_BITS = 30

_U = np.uint64
_S32, _ONE, _HALF = _U(32), _U(1), _U(0xFFFFFFFF)
_MAX_VALUE = _U(protocol.NO_VALUE - 1)
_RANK, _WITHIN = _U(RANK_BITS), _U(darts.SEGMENT_BITS)
_SEGMENT, _MANTISSA = _U(64 - darts.SEGMENT_BITS), _U(64 - darts.MANTISSA_BITS)
_ABOVE_MANTISSA = _U(darts.MANTISSA_BITS)
_SMALL = _U(64 - RANK_BITS)
_LONGEST = 63  # bits of a limit

NOTHING = _U(0xFFFFFFFFFFFFFFFF)  # after every dart
_GOLDEN = _U(protocol.GOLDEN)
_FRACTION, _EXPONENT, _HEIGHT = _U((1 << 52) - 1), _U(52), _U(20)
_BIAS = 1023
_NO_VALUE = np.uint32(protocol.NO_VALUE)


@kernel
def _count(values, offset, unique_values, unique_offset, weight):
    """Find each value among its row's distinct ones by halving."""
    for row in range(offset.size - 1):
        begin, end = unique_offset[row], unique_offset[row + 1]
        for i in range(offset[row], offset[row + 1]):
            low, high = begin, end
            while high - low > 1:
                middle = (low + high) >> 1
                if unique_values[middle] <= values[i]:
                    low = middle
                else:
                    high = middle
            weight[low] += 1.0


def occurrences(threads: Threads, fingerprints: Fingerprints) -> WeightedFingerprints:
    values, offset = np.ascontiguousarray(fingerprints.values), np.ascontiguousarray(fingerprints.offset)
    rows = unique(threads, Fingerprints(values, offset))
    weight = np.zeros(len(rows.values))
    threads.map(
        lambda start, stop: _count(
            values, offset[start : stop + 1], rows.values, rows.offset[start : stop + 1], weight
        ),
        row_ranges(offset, CHUNK_SHINGLES),
    )
    return WeightedFingerprints(rows.values, weight, rows.offset)


@kernel
def _overlap(pairs, values, weight, offset, share, least, greatest):
    """`share` float64 [2] is 0 and 1; except for AVX-512, LLVM would make a branch of a product with a truth value."""
    for pair in range(pairs.shape[0]):
        i, i_end = offset[pairs[pair, 0]], offset[pairs[pair, 0] + 1]
        j, j_end = offset[pairs[pair, 1]], offset[pairs[pair, 1] + 1]
        low, high = 0.0, 0.0
        while i < i_end and j < j_end:
            a, b = values[i], values[j]
            # No branch: a processor cannot guess which is less.
            x, y = weight[i] * share[np.uint64(a <= b)], weight[j] * share[np.uint64(b <= a)]
            low += min(x, y)
            high += max(x, y)
            i += a <= b
            j += b <= a
        for rest in range(i, i_end):
            high += weight[rest]
        for rest in range(j, j_end):
            high += weight[rest]
        least[pair], greatest[pair] = low, high


def weighted_overlap(
    threads: Threads, pairs: Numbers, rows: WeightedFingerprints
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pairs, least, greatest = np.ascontiguousarray(pairs), np.empty(len(pairs)), np.empty(len(pairs))
    values, weight = np.ascontiguousarray(rows.values), np.ascontiguousarray(rows.weight)
    offset, share = np.ascontiguousarray(rows.offset), np.array([0.0, 1.0])
    threads.map(
        lambda start, stop: _overlap(
            pairs[start:stop], values, weight, offset, share, least[start:stop], greatest[start:stop]
        ),
        ranges_of_size(len(pairs), CHUNK_PAIRS),
    )
    return least, greatest


@subroutine
def surprise(table, word):
    before = leading_zeros(word | _ONE)
    behind = (word | _ONE) << before << _ONE
    segment = np.int64(behind >> _SEGMENT)
    low = table[segment]
    return (before + _ONE << _RANK) - (low + ((table[segment + 1] - low) * (behind << _WITHIN >> _S32) >> _S32))


@subroutine
def rank_limit(reach, level):
    """The limit of a level's ranks for which the ranks of all levels stay below 2^reach; 0 if there is none."""
    room = reach + level + RANK_BITS
    return _ONE << _U(min(room, _LONGEST)) if room > 0 else _U(0)


@subroutine
def is_beyond(word, limit):
    """Whether the first rank is surely not below `limit`, without the table: -log2(x) is more than 1 - x."""
    return limit <= _ONE << _RANK and ~word >> _SMALL > limit


@subroutine
def order(rank, level, place, value_word):
    """The rank, comparable across levels, above the dart's value."""
    before = leading_zeros(rank)
    exponent = _U(np.int64(64 + RANK_BIAS) - np.int64(before) - level)
    mantissa = rank << before << _ONE >> _MANTISSA
    return (exponent << _ABOVE_MANTISSA | mantissa) << _S32 | min(mix64(place ^ value_word) >> _S32, _MAX_VALUE)


@kernel
def _signatures(values, bits, offset, wanted, multiplier, addend, place_word, value_word, table, least, out):
    """Rows have weights as the `bits` of floating-point numbers; `wanted` darts most probably hit all bins."""
    bins = out.shape[1]
    for row in range(offset.size - 1):
        start, stop = offset[row], offset[row + 1]
        top = MIN_EXPONENT - 1
        for i in range(start, stop):
            top = max(top, np.int64(bits[i] >> _EXPONENT) - _BIAS)
        if top < MIN_EXPONENT:
            out[row] = _NO_VALUE
            continue
        mass = 0  # in units of 2^(top - UNIT_BITS), of smaller weights one
        for i in range(start, stop):
            mass += 1 << max(np.int64(bits[i] >> _EXPONENT) - _BIAS - top + UNIT_BITS, 0)
        reach, thrown = -top, mass >> UNIT_BITS
        while thrown < wanted:
            thrown *= 2
            reach += 1
        while True:
            least[:] = NOTHING
            missing = bins
            for i in range(start, stop):
                highest = np.int64(bits[i] >> _EXPONENT) - _BIAS
                fraction = bits[i] & _FRACTION
                line = multiplier * values[i] + addend
                # No dart of the highest level is below a power of two, nor is any of a weight that is no number.
                for step in range(np.int64(fraction == 0), LEVELS if highest >= MIN_EXPONENT else 0):
                    level = highest - step
                    limit = rank_limit(reach, level)
                    if limit == 0:
                        break
                    word = mix64(line + _U(level) * _GOLDEN)
                    if is_beyond(word, limit):
                        continue
                    rank = surprise(table, word)
                    while rank < limit:
                        place = mix64(word ^ place_word)
                        if step > 0 or (place & _HALF) << _HEIGHT < fraction:
                            at = np.int64((place >> _S32) * _U(bins) >> _S32)
                            missing -= least[at] == NOTHING
                            least[at] = min(least[at], order(rank, level, place, value_word))
                        word = mix64(place + _GOLDEN)
                        rank += surprise(table, word)
            if missing == 0:
                break
            reach += 1
        for place in range(bins):
            out[row, place] = np.uint32(least[place] & _HALF)


def weighted_minhash(threads: Threads, rows: WeightedFingerprints, num_perm: int, seed: int) -> NDArray[np.uint32]:
    values, bits = np.ascontiguousarray(rows.values), np.ascontiguousarray(rows.weight).view(np.uint64)
    offset, signatures = np.ascontiguousarray(rows.offset), np.empty((len(rows), num_perm), np.uint32)
    streams, wanted = Streams.of("weighted_minhash", seed), num_perm * (math.log(num_perm) + 3)

    def work(start: int, stop: int) -> None:
        least = np.empty(num_perm, np.uint64)
        cut = offset[start : stop + 1]
        _signatures(values, bits, cut, wanted, *streams, logarithms(), least, signatures[start:stop])

    threads.map(work, row_ranges(offset, WEIGHTED_SHINGLES))
    return signatures


@kernel
def _first_hits(rows, multiplier, addend, place_word, value_word, table, out):
    """Rows are the bits of floating-point numbers."""
    columns = _U(rows.shape[1])
    for row in range(rows.shape[0]):
        numbers = rows[row]
        greatest = _U(0)
        for number in numbers:
            greatest = max(greatest, number)
        top = np.int64(greatest >> _EXPONENT) - _BIAS
        if top < MIN_OF_ROW:
            out[row] = _NO_VALUE
            continue
        for function in range(out.shape[1]):
            line = multiplier * _U(function) + addend
            first, reach = NOTHING, -top
            while first == NOTHING:
                for level in range(top, top - ROW_LEVELS, -1):
                    limit = rank_limit(reach, level)
                    if limit == 0:
                        break
                    word = mix64(line + _U(level) * _GOLDEN)
                    if is_beyond(word, limit):
                        continue
                    lowest = _U(level + _BIAS) << _EXPONENT
                    rank = surprise(table, word)
                    while rank < limit:
                        place = mix64(word ^ place_word)
                        if lowest | (place & _HALF) << _HEIGHT < numbers[np.int64((place >> _S32) * columns >> _S32)]:
                            first = min(first, order(rank, level, place, value_word))
                            break
                        word = mix64(place + _GOLDEN)
                        rank += surprise(table, word)
                reach += 1
            out[row, function] = np.uint32(first & _HALF)


def kleinberg_tardos(threads: Threads, rows: NDArray[np.float64], num_perm: int, seed: int) -> NDArray[np.uint32]:
    bits, signatures = np.ascontiguousarray(rows).view(np.uint64), np.empty((len(rows), num_perm), np.uint32)
    streams = Streams.of("kleinberg_tardos", seed)
    threads.map(
        lambda start, stop: _first_hits(bits[start:stop], *streams, logarithms(), signatures[start:stop]),
        ranges_of_size(len(rows), ROWS_AT_ONCE),
    )
    return signatures
