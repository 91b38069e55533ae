"""Sketches that throw fingerprints into bins: fast similarity sketching, one permutation hashing, SplitMix64's rounds.

Fast similarity sketching takes a few multiply-adds per fingerprint, where MinHash takes one per function. Rounds end
when no bin is empty; MinHash's loop fills the bins that are empty after all rounds. It is faster than MinHash if a set
has more fingerprints than a fraction of the bins, and the advantage grows with the set.

One permutation hashing takes a multiply-add, a bin and a minimum per fingerprint, however long the signature is. It is
faster than MinHash if documents have more shingles than a few times the signature's length. For a short document, most
bins are filled by probing, which takes longer than minima. A single shingle needs no probe.

`splitmix_rounds` takes a hash per fingerprint and round, until no bin is empty; then one per fingerprint and bin.

Empty bins are the bits of a word, because the processor would mispredict a branch on each bin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends import hashing, protocol
from gpulsh.backends.cpu.kernel import inlined, kernel
from gpulsh.backends.cpu.sketches import Minima
from gpulsh.backends.cpu.sketches.minhash import LANES, TILE, fold_lanes
from gpulsh.backends.cpu.vectors import (
    I32,
    I64,
    WORDS,
    broadcast,
    llvm,
    load,
    lowest_bit,
    mix64,
    popcount,
    splat,
    store,
)
from gpulsh.backends.cpu.vectors import LANES as EIGHT
from gpulsh.params import Family
from gpulsh.permutations import word_array, word_pairs, words

WORD = 64  # bins
AHEAD = 8  # places written at once, so that the number of empty bins of a word is no mispredicted branch
PROBES = 16  # of each bin, looked up; the rest are computed
AT_ONCE = 32  # of the rest
ROUNDS = 64  # times as many probes as there are bins; then the next bin that has a value

_U, _U32 = np.uint64, np.uint32
_NO_VALUE = _U32(protocol.NO_VALUE)
_S32 = _U(32)
_LOWER, _UPPER = _U(0xFFFFFFFF), _U(0xFFFFFFFF << 32)
_MAX_VALUE = _U(protocol.NO_VALUE - 1)
_THROWS = protocol.THROWS
_VALUE, _REST = _U(protocol.VALUE_BITS), _U(32 - protocol.VALUE_BITS)
_OWN = _U32(_THROWS << protocol.VALUE_BITS)
_NONE, _GOLDEN = _U(protocol.NO_DIGEST), _U(protocol.GOLDEN)
_ROUND, _WITHIN = _U(protocol.ROUND_SHIFT), _U((1 << protocol.ROUND_SHIFT) - 1)
_M1, _M2 = _U(0xBF58476D1CE4E5B9), _U(0x94D049BB133111EB)
_S27, _S30, _S31 = _U(27), _U(30), _U(31)

_bins, _halves = ir.VectorType(I32, WORD), ir.VectorType(I32, 2 * EIGHT)


@inlined
def _keep_least(thrown, count, least):
    """Lower `least` by the first `count` of `thrown`, uint64: a bin in the upper half, a value in the lower."""
    for i in range(count):
        place = thrown[i] >> _S32
        least[place] = min(least[place], _U32(thrown[i]))


@llvm(types.uint64(types.int64))
def _empty(builder: ir.IRBuilder, least_at: ir.Value) -> ir.Value:
    """Bit i is set if bin i of WORD is empty."""
    equal = builder.icmp_unsigned("==", load(builder, least_at, _bins), splat(protocol.NO_VALUE, _bins))
    return builder.bitcast(equal, I64)


@inlined
def _empty_bins(least, places):
    """How many bins have no value; `places`, AHEAD more than there are bins, begins with their numbers, ascending."""
    least_at, taken, whole = least.ctypes.data, 0, least.size - least.size % WORD
    for first in range(0, whole, WORD):
        empty = _empty(least_at + 4 * first)
        end = taken + popcount(empty)
        while taken < end:
            for i in range(AHEAD):
                places[taken + i] = first + lowest_bit(empty)
                empty &= empty - _U(1)
            taken += AHEAD
        taken = end
    for place in range(whole, least.size):
        places[taken] = place
        taken += least[place] == _NO_VALUE
    return taken


@llvm(types.void(types.int64, types.uint64, types.uint64, types.uint64, types.uint64, types.int64))
def _throw_eight(
    builder: ir.IRBuilder,
    source_at: ir.Value,
    multiplier: ir.Value,
    addend: ir.Value,
    bins: ir.Value,
    before: ir.Value,
    thrown_at: ir.Value,
) -> None:
    """Store eight fingerprints' throws, a bin in the upper half, a value in the lower; halves are hashed at once."""
    multipliers, addends = (builder.bitcast(broadcast(builder, half), _halves) for half in (multiplier, addend))
    hashed = builder.add(builder.mul(load(builder, source_at, _halves), multipliers), addends)
    hashed = builder.bitcast(hashed, WORDS)
    bins = broadcast(builder, builder.zext(builder.trunc(bins, I32), I64))  # the compiler sees that it is short
    place = builder.and_(builder.mul(builder.lshr(hashed, splat(32)), bins), splat(int(_UPPER)))
    value = builder.lshr(builder.and_(hashed, splat(int(_LOWER))), splat(int(_REST)))
    store(builder, builder.or_(builder.or_(place, value), broadcast(builder, before)), thrown_at)


@kernel
def _throw_all(values, offset, multiplier, addend, own, no_addends, tile, thrown, places, multipliers, least, minima):
    """`multiplier`, `addend` [THROWS], two halves each; `own` [columns] multipliers, `no_addends` zeros; then room."""
    count, tile_at, thrown_at, least_at = minima.shape[1], tile.ctypes.data, thrown.ctypes.data, least.ctypes.data
    bins = _U(count)
    for document in range(offset.size - 1):
        found = minima[document]
        row = values[offset[document] : offset[document + 1]]
        for i in range(count):
            found[i] = _NO_VALUE
        if row.size == 0:
            continue
        number, greatest = 0, _NO_VALUE
        while number < _THROWS and greatest == _NO_VALUE:
            a, b, before = multiplier[number], addend[number], _U(number) << _VALUE
            for first in range(0, row.size, TILE):
                source = row[first : first + TILE]
                eights = source.size // EIGHT * EIGHT
                for i in range(0, eights, EIGHT):
                    _throw_eight(source.ctypes.data + 8 * i, a, b, bins, before, thrown_at + 8 * i)
                for i in range(eights, source.size):
                    thrown[i] = source[i]
                _throw_eight(thrown_at + 8 * eights, a, b, bins, before, thrown_at + 8 * eights)
                _keep_least(thrown, source.size, found)
            number += 1
            if number * row.size >= count:  # fewer leave a bin empty
                greatest = _U32(0)
                for i in range(count):
                    greatest = max(greatest, found[i])
        empty = _empty_bins(found, places)
        if empty == 0:
            continue
        vectors = (empty + LANES - 1) // LANES
        for i in range(empty):
            multipliers[i] = own[places[i]]
        for i in range(vectors * LANES):
            least[i] = _NO_VALUE
        for first in range(0, row.size, TILE):
            source = row[first : first + TILE]
            for i in range(source.size):
                tile[i] = _U32(source[i] >> _S32)
            fold_lanes(tile_at, source.size, vectors, multipliers.ctypes.data, no_addends.ctypes.data, least_at)
        for i in range(empty):
            found[places[i]] = _OWN | least[i] >> _U32(_REST)


class FastSimilarity(Minima):
    """For each bin the first round that reached it, and the least value there."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        drawn = word_array(family, 2 * _THROWS + family.num_perm)
        multiplier, addend = (drawn >> _S32).astype(np.uint32) | _U32(1), drawn.astype(np.uint32)
        # A round's two words, the bin's and the value's, become one of both their multipliers and one of addends.
        rounds = [half[: 2 * _THROWS].astype(np.uint64) for half in (multiplier, addend)]
        self._rounds = [half[0::2] << _S32 | half[1::2] for half in rounds]
        self._own = multiplier[2 * _THROWS :]

    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        tile, thrown = np.empty(TILE, np.uint32), np.empty(TILE + EIGHT, np.uint64)
        places = np.empty(self.columns + AHEAD, np.uint32)
        no_addends, multipliers, least = np.zeros((3, self.columns + LANES), np.uint32)
        room = no_addends, tile, thrown, places, multipliers, least
        _throw_all(fingerprints.values, fingerprints.offset, *self._rounds, self._own, *room, minima)


@kernel
def _throw_once(values, offset, multiplier, addend, thrown, minima):
    bins = _U(minima.shape[1])
    for document in range(offset.size - 1):
        least = minima[document]
        least[:] = _NO_VALUE
        begin, end = offset[document], offset[document + 1]
        for first in range(begin, end, TILE):
            source = values[first : min(first + TILE, end)]
            for i in range(source.size):  # in vectors
                y = multiplier * source[i] + addend
                thrown[i] = (y >> _S32) * bins & _UPPER | min(y & _LOWER, _MAX_VALUE)
            _keep_least(thrown, source.size, least)


@inlined
def _only_value(least):
    """The value of all bins that have one, NO_VALUE if they differ."""
    low, high = _NO_VALUE, _U32(0)
    for value in least:
        low = min(low, value)
        high = max(high, value if value != _NO_VALUE else _U32(0))
    return low if low == high else _NO_VALUE


@kernel
def _fill(signatures, probes, probe, least, places, drawn):
    """A probe at a time for all bins that are still empty, so that no branch is guessed; the last three are room."""
    count = signatures.shape[1]
    bins = _U(count)
    for document in range(signatures.shape[0]):
        signature = signatures[document]
        for place in range(count):
            least[place] = signature[place]
        empty = _empty_bins(least, places)
        if empty == count:
            continue
        t = 0
        while empty > 0 and t < PROBES:
            probed, left = probes[t], 0
            for i in range(empty):
                place = places[i]
                value = least[probed[place]]
                signature[place] = value
                places[left] = place
                left += value == _NO_VALUE
            empty = left
            t += 1
        only = _only_value(least) if 2 * empty > count else _NO_VALUE
        for i in range(empty):
            place = places[i]
            signature[place] = only
            t = PROBES
            while signature[place] == _NO_VALUE and t < ROUNDS * count:
                for j in range(AT_ONCE):  # in vectors
                    hashed = mix64(probe + (_U(place) << _S32 | _U(t + j)))
                    drawn[j] = (hashed >> _S32) * bins >> _S32
                for j in range(min(AT_ONCE, ROUNDS * count - t)):
                    if signature[place] == _NO_VALUE:
                        signature[place] = least[drawn[j]]
                t += AT_ONCE
            following = np.int64(place)
            while signature[place] == _NO_VALUE:
                following = following + 1 if following + 1 < count else 0
                signature[place] = least[following]


class OnePermutation(Minima):
    """The least value in each of `num_perm` bins."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        multiplier, addend, probe = words(family, 3)
        self._multiplier, self._addend, self._probe = _U(multiplier | 1), _U(addend), _U(probe)
        place, t = np.arange(self.columns, dtype=np.uint64), np.arange(PROBES, dtype=np.uint64)[:, None]
        drawn = hashing.mix64(self._probe + (place << _S32 | t)) >> _S32
        self._probes = (drawn * _U(self.columns) >> _S32).astype(np.uint32)  # where the first of each bin look

    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        drawn = self._multiplier, self._addend
        _throw_once(fingerprints.values, fingerprints.offset, *drawn, np.empty(TILE, np.uint64), minima)

    def finish(self, state: Values) -> Values:
        least, places = np.empty(self.columns, np.uint32), np.empty(self.columns + AHEAD, np.uint32)
        _fill(state, self._probes, self._probe, least, places, np.empty(AT_ONCE, np.uint64))
        return state


@inlined
def _splitmix64(word):
    word += _GOLDEN
    word = (word ^ word >> _S30) * _M1
    word = (word ^ word >> _S27) * _M2
    return word ^ word >> _S31


@kernel
def _hash_rounds(values, offset, rounds, own, state):
    bins = rounds.size
    mask = _U(bins - 1)
    for document in range(offset.size - 1):
        found = state[document]
        for i in range(found.size):
            found[i] = _NONE
        row = values[offset[document] : offset[document + 1]]
        empty, number = bins if row.size > 0 else 0, 0
        while empty > 0 and number < bins:
            for i in range(row.size):
                word = _splitmix64(row[i] ^ rounds[number])
                place = word & mask
                empty -= found[place] == _NONE
                found[place] = min(found[place], _U(number) << _ROUND | word & _WITHIN)
            number += 1
        for place in range(bins if empty > 0 else 0):
            if found[place] == _NONE:
                least = _NONE
                for i in range(row.size):
                    least = min(least, _splitmix64(row[i] ^ own[place]))
                found[bins + place] = least


class SplitmixRounds(Minima):
    """For each bin the least value of the first round that reached it, and for each bin left empty the least hash."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.columns = 2 * family.num_perm
        self._words = word_pairs(family)

    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        _hash_rounds(fingerprints.values, fingerprints.offset, *self._words, minima)

    def finish(self, state: Values) -> Values:
        found: Values = hashing.rounds_joined(state)
        return found


SKETCHES: dict[str, Callable[[Family], Minima]] = {
    "fast_similarity": FastSimilarity,
    "one_permutation": OnePermutation,
    "splitmix_rounds": SplitmixRounds,
}
