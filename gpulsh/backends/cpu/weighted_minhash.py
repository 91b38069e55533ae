"""weighted_minhash and kleinberg_tardos: a row at a time, up to a rank by which most probably all bins are hit."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import WeightedFingerprints
from gpulsh.backends import protocol
from gpulsh.backends.cpu.chunks import Threads, by_count, by_weight
from gpulsh.backends.cpu.darts import NOTHING, is_beyond, order, rank_limit, surprise
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.mixing import mixed
from gpulsh.backends.darts import LEAST_EXPONENT, LEAST_OF_ROW, Streams, logarithms

CHUNK_SHINGLES = 1 << 14
ROWS_AT_ONCE = 64
LEVELS = 24  # of a weight
ROW_LEVELS = 32  # of all of a dense row
UNIT_BITS = 30

_U = np.uint64
_GOLDEN = _U(protocol.GOLDEN)
_S32, _HALF = _U(32), _U(0xFFFFFFFF)
_FRACTION, _EXPONENT, _HEIGHT = _U((1 << 52) - 1), _U(52), _U(20)
_BIAS = 1023
_NO_VALUE = np.uint32(protocol.NO_VALUE)


@kernel
def _signatures(values, bits, offset, wanted, multiplier, addend, place_word, value_word, table, least, out):
    """Of rows of weights as the `bits` of floating-point numbers; `wanted` darts most probably hit all bins."""
    bins = out.shape[1]
    for row in range(offset.size - 1):
        start, stop = offset[row], offset[row + 1]
        top = LEAST_EXPONENT - 1
        for i in range(start, stop):
            top = max(top, np.int64(bits[i] >> _EXPONENT) - _BIAS)
        if top < LEAST_EXPONENT:
            out[row] = _NO_VALUE
            continue
        mass = 0  # in units of 2^(top - UNIT_BITS), of smaller weights one
        for i in range(start, stop):
            mass += 1 << max(np.int64(bits[i] >> _EXPONENT) - _BIAS - top + UNIT_BITS, 0)
        reach, darts = -top, mass >> UNIT_BITS
        while darts < wanted:
            darts *= 2
            reach += 1
        while True:
            least[:] = NOTHING
            missing = bins
            for i in range(start, stop):
                highest = np.int64(bits[i] >> _EXPONENT) - _BIAS
                fraction = bits[i] & _FRACTION
                line = multiplier * values[i] + addend
                # No dart of the highest level is below a power of two, nor is any of a weight that is no number.
                for step in range(np.int64(fraction == 0), LEVELS if highest >= LEAST_EXPONENT else 0):
                    level = highest - step
                    limit = rank_limit(reach, level)
                    if limit == 0:
                        break
                    word = mixed(line + _U(level) * _GOLDEN)
                    if is_beyond(word, limit):
                        continue
                    rank = surprise(table, word)
                    while rank < limit:
                        place = mixed(word ^ place_word)
                        if step > 0 or (place & _HALF) << _HEIGHT < fraction:
                            at = np.int64((place >> _S32) * _U(bins) >> _S32)
                            missing -= least[at] == NOTHING
                            least[at] = min(least[at], order(rank, level, place, value_word))
                        word = mixed(place + _GOLDEN)
                        rank += surprise(table, word)
            if missing == 0:
                break
            reach += 1
        for place in range(bins):
            out[row, place] = np.uint32(least[place] & _HALF)


def weighted_minhash(rows: WeightedFingerprints, num_perm: int, seed: int, threads: Threads) -> NDArray[np.uint32]:
    values, bits = np.ascontiguousarray(rows.values), np.ascontiguousarray(rows.weight).view(np.uint64)
    offset, signatures = np.ascontiguousarray(rows.offset), np.empty((len(rows), num_perm), np.uint32)
    streams, wanted = Streams.of("weighted_minhash", seed), num_perm * (math.log(num_perm) + 3)

    def work(start: int, stop: int) -> None:
        least = np.empty(num_perm, np.uint64)
        cut = offset[start : stop + 1]
        _signatures(values, bits, cut, wanted, *streams, logarithms(), least, signatures[start:stop])

    threads.map(work, by_weight(offset, CHUNK_SHINGLES))
    return signatures


@kernel
def _first_hits(rows, multiplier, addend, place_word, value_word, table, out):
    """Of rows of numbers as the bits of floating-point ones."""
    columns = _U(rows.shape[1])
    for row in range(rows.shape[0]):
        numbers = rows[row]
        greatest = _U(0)
        for number in numbers:
            greatest = max(greatest, number)
        top = np.int64(greatest >> _EXPONENT) - _BIAS
        if top < LEAST_OF_ROW:
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
                    word = mixed(line + _U(level) * _GOLDEN)
                    if is_beyond(word, limit):
                        continue
                    lowest = _U(level + _BIAS) << _EXPONENT
                    rank = surprise(table, word)
                    while rank < limit:
                        place = mixed(word ^ place_word)
                        if lowest | (place & _HALF) << _HEIGHT < numbers[np.int64((place >> _S32) * columns >> _S32)]:
                            first = min(first, order(rank, level, place, value_word))
                            break
                        word = mixed(place + _GOLDEN)
                        rank += surprise(table, word)
                reach += 1
            out[row, function] = np.uint32(first & _HALF)


def kleinberg_tardos(rows: NDArray[np.float64], num_perm: int, seed: int, threads: Threads) -> NDArray[np.uint32]:
    bits, signatures = np.ascontiguousarray(rows).view(np.uint64), np.empty((len(rows), num_perm), np.uint32)
    streams = Streams.of("kleinberg_tardos", seed)
    threads.map(
        lambda start, stop: _first_hits(bits[start:stop], *streams, logarithms(), signatures[start:stop]),
        by_count(len(rows), ROWS_AT_ONCE),
    )
    return signatures
