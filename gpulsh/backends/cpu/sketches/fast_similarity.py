"""Fast similarity sketching: a few multiply-adds a fingerprint instead of one a function.

Rounds end when no bin is empty. Bins that are empty after all rounds take minima by MinHash's loop. It wins over
MinHash when a set has more fingerprints than a fraction of the bins, and more so the longer the set is.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches import Minima
from gpulsh.backends.cpu.sketches.bins import AHEAD, any_empty, empty_bins, keep_least
from gpulsh.backends.cpu.sketches.minhash import LANES, TILE, fold_lanes
from gpulsh.backends.cpu.vectors import I32, I64, WORDS, all_of, everywhere, load, lowered, store
from gpulsh.backends.cpu.vectors import LANES as EIGHT
from gpulsh.params import Family
from gpulsh.permutations import word_array

_U, _U32 = np.uint64, np.uint32
_THROWS = protocol.THROWS
_S32 = _U(32)
_LOWER, _UPPER = _U(0xFFFFFFFF), _U(0xFFFFFFFF << 32)
_VALUE, _REST = _U(protocol.VALUE_BITS), _U(32 - protocol.VALUE_BITS)
_OWN, _NO_VALUE = _U32(_THROWS << protocol.VALUE_BITS), _U32(protocol.NO_VALUE)

_halves = ir.VectorType(I32, 2 * EIGHT)


@lowered(types.void(types.int64, types.uint64, types.uint64, types.uint64, types.uint64, types.int64))
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
    multipliers, addends = (builder.bitcast(everywhere(builder, half), _halves) for half in (multiplier, addend))
    hashed = builder.add(builder.mul(load(builder, source_at, _halves), multipliers), addends)
    hashed = builder.bitcast(hashed, WORDS)
    bins = everywhere(builder, builder.zext(builder.trunc(bins, I32), I64))  # the compiler sees that it is short
    place = builder.and_(builder.mul(builder.lshr(hashed, all_of(32)), bins), all_of(int(_UPPER)))
    value = builder.lshr(builder.and_(hashed, all_of(int(_LOWER))), all_of(int(_REST)))
    store(builder, builder.or_(builder.or_(place, value), everywhere(builder, before)), thrown_at)


@kernel
def _fold(values, offset, multiplier, addend, own, no_addends, tile, thrown, places, multipliers, least, minima):
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
        number = 0
        while number < _THROWS and (number * row.size < count or any_empty(found)):
            a, b, before = multiplier[number], addend[number], _U(number) << _VALUE
            for first in range(0, row.size, TILE):
                source = row[first : first + TILE]
                eights = source.size // EIGHT * EIGHT
                for i in range(0, eights, EIGHT):
                    _throw_eight(source.ctypes.data + 8 * i, a, b, bins, before, thrown_at + 8 * i)
                for i in range(eights, source.size):
                    thrown[i] = source[i]
                _throw_eight(thrown_at + 8 * eights, a, b, bins, before, thrown_at + 8 * eights)
                keep_least(thrown, source.size, found)
            number += 1
        empty = empty_bins(found, places)
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


class Sketch(Minima):
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
        _fold(fingerprints.values, fingerprints.offset, *self._rounds, self._own, *room, minima)
