"""Fast similarity sketching: a few multiply-adds a fingerprint in place of one a function.

Rounds end where no bin is empty; bins that are empty after all of them take minima by MinHash's vectors, those bins
alone. It wins over MinHash where a set has more fingerprints than a fraction of the bins, the more the longer it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minhash import LANES, TILE, fold_lanes
from gpulsh.backends.cpu.sketches.minima import Minima
from gpulsh.params import Family
from gpulsh.permutations import word_array

_U, _U32 = np.uint64, np.uint32
_THROWS = protocol.THROWS
_S32 = _U(32)
_VALUE, _REST = _U32(protocol.VALUE_BITS), _U32(32 - protocol.VALUE_BITS)
_NO_VALUE = _U32(protocol.NO_VALUE)


@kernel
def _fold(values, offset, multiplier, addend, tile, thrown, places, multipliers, addends, least, lie_at, minima):
    """`multiplier`, `addend` [2 THROWS + columns]; then room, and where `tile` and the last three of it lie."""
    count = minima.shape[1]
    bins = _U(count)
    for document in range(offset.size - 1):
        found = minima[document]
        row = values[offset[document] : offset[document + 1]]
        for i in range(count):
            found[i] = _NO_VALUE
        if row.size == 0:
            continue
        empty, number = count, 0
        while empty > 0 and number < _THROWS:
            a, b = multiplier[2 * number], addend[2 * number]
            c, d = multiplier[2 * number + 1], addend[2 * number + 1]
            before = _U32(number) << _VALUE
            for first in range(0, row.size, TILE):
                source = row[first : first + TILE]
                for i in range(source.size):  # in vectors
                    tile[i] = _U32(_U(_U32(_U32(source[i] >> _S32) * a + b)) * bins >> _S32)
                    thrown[i] = before | _U32(_U32(source[i]) * c + d) >> _REST
                for i in range(source.size):
                    found[tile[i]] = min(found[tile[i]], thrown[i])
            empty = 0
            for place in range(count):
                empty += found[place] == _NO_VALUE
            number += 1
        if empty == 0:
            continue
        taken = 0
        for place in range(count):
            places[taken] = place
            taken += found[place] == _NO_VALUE
        for i in range(empty):
            multipliers[i], addends[i] = multiplier[2 * _THROWS + places[i]], addend[2 * _THROWS + places[i]]
        vectors = (empty + LANES - 1) // LANES
        for i in range(vectors * LANES):
            least[i] = _NO_VALUE
        for first in range(0, row.size, TILE):
            source = row[first : first + TILE]
            for i in range(source.size):
                tile[i] = _U32(source[i] >> _S32)
            fold_lanes(lie_at[0], source.size, vectors, lie_at[1], lie_at[2], lie_at[3])
        for i in range(empty):
            found[places[i]] = _U32(_THROWS) << _VALUE | least[i] >> _REST


class Sketch(Minima):
    """For each bin the first round that reached it, and the least value there."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        drawn = word_array(family, 2 * _THROWS + family.num_perm)
        self._multiplier = (drawn >> _S32).astype(np.uint32) | _U32(1)
        self._addend = drawn.astype(np.uint32)

    def fold(self, fingerprints: Fingerprints) -> NDArray[np.uint32]:
        minima = np.empty((len(fingerprints), self._columns), np.uint32)
        (tile, thrown), places = np.empty((2, TILE), np.uint32), np.empty(self._columns + 1, np.int64)
        room = np.zeros((3, -(-self._columns // LANES) * LANES), np.uint32)
        lie_at = np.array([tile.ctypes.data, *(one.ctypes.data for one in room)])
        drawn = self._multiplier, self._addend
        _fold(fingerprints.values, fingerprints.offset, *drawn, tile, thrown, places, *room, lie_at, minima)
        return minima
