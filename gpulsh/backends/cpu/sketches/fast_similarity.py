"""Fast similarity sketching: a few multiply-adds a fingerprint in place of one a function.

Rounds after the first look only for the bins that are still empty. It wins over MinHash where a set has more
fingerprints than a few bins; a set of one takes twice as many rounds as there are bins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import Minima
from gpulsh.params import Family
from gpulsh.permutations import word_array

_U = np.uint64
_MIX_1, _MIX_2 = _U(protocol.MIX_1), _U(protocol.MIX_2)
_S27, _S32, _S33 = _U(27), _U(32), _U(33)
_ROUND = _U(64 - protocol.ROUND_BITS)
_VALUE = _U((1 << 64 - protocol.ROUND_BITS) - 1)
_EMPTY = _U(0xFFFFFFFFFFFFFFFF)
_NO_VALUE, _MOST = np.uint32(protocol.NO_VALUE), np.uint32(protocol.NO_VALUE - 1)


@kernel
def _fold(values, offset, multiplier, addend, state):
    count = state.shape[1]
    bins = _U(count)
    for document in range(offset.size - 1):
        found = state[document]
        row = values[offset[document] : offset[document + 1]]
        if row.size == 0:
            continue
        for i in range(row.size):
            y = multiplier[0] * row[i] + addend[0]
            place = (y >> _S32) * bins >> _S32
            found[place] = min(found[place], y & _VALUE)
        empty = 0
        for place in range(count):
            empty += found[place] == _EMPTY
        number = 1
        while empty > 0:
            before = _U(number) << _ROUND
            if number < count:
                for i in range(row.size):
                    y = multiplier[number] * row[i] + addend[number]
                    place = (y >> _S32) * bins >> _S32
                    if found[place] >= before:
                        empty -= found[place] == _EMPTY
                        found[place] = min(found[place], before | y & _VALUE)
            elif found[number - count] == _EMPTY:
                empty -= 1
                for i in range(row.size):
                    y = multiplier[number] * row[i] + addend[number]
                    found[number - count] = min(found[number - count], before | y & _VALUE)
            number += 1


@kernel
def _finish(state, signatures):
    for document in range(state.shape[0]):
        for place in range(state.shape[1]):
            z = state[document, place]
            if z == _EMPTY:
                signatures[document, place] = _NO_VALUE
                continue
            z ^= z >> _S27
            z *= _MIX_1
            z ^= z >> _S33
            z *= _MIX_2
            z ^= z >> _S27
            signatures[document, place] = min(np.uint32(z >> _S32), _MOST)


class Sketch(Minima):
    """For each bin the first round that reached it, and the least value there; `finish` makes 32 bits of them."""

    dtype = np.uint64

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        drawn = word_array(family, 4 * family.num_perm).reshape(-1, 2)
        self._multiplier, self._addend = drawn[:, 0] | _U(1), drawn[:, 1].copy()

    def fold(self, fingerprints: Fingerprints) -> NDArray[np.uint64]:
        state = self.empty(len(fingerprints))
        _fold(fingerprints.values, fingerprints.offset, self._multiplier, self._addend, state)
        return state

    def finish(self, state: NDArray[np.uint64]) -> NDArray[np.uint32]:
        signatures = np.empty(state.shape, np.uint32)
        _finish(state, signatures)
        return signatures
