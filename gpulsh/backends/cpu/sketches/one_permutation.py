"""One permutation hashing: a multiply-add, a bin and a minimum a fingerprint, however long the signature is.

It wins over MinHash where documents have more shingles than a few times the signature's length; of a short one, most
bins are filled by probing, which takes longer than its minima would.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.sketches.minima import Minima
from gpulsh.params import Family
from gpulsh.permutations import words

PROBES = 16  # of each bin, looked up; the rest are computed
ROUNDS = 64  # times as many probes as there are bins; then the next bin that has a value

_U = np.uint64
_MIX_1, _MIX_2 = _U(protocol.MIX_1), _U(protocol.MIX_2)
_S27, _S32, _S33 = _U(27), _U(32), _U(33)
_LOWER = _U(0xFFFFFFFF)
_NO_VALUE = np.uint32(protocol.NO_VALUE)
_MOST = np.uint32(protocol.NO_VALUE - 1)


@kernel
def _fold(values, offset, multiplier, addend, minima):
    bins = _U(minima.shape[1])
    for document in range(offset.size - 1):
        least = minima[document]
        least[:] = _NO_VALUE
        for i in range(offset[document], offset[document + 1]):
            y = multiplier * values[i] + addend
            place = (y >> _S32) * bins >> _S32
            least[place] = min(least[place], np.uint32(y & _LOWER), _MOST)


@kernel
def _fill(minima, probes, probe, places, signatures):
    """A probe at a time for all bins that are still empty, so that no branch is guessed; `places` [bins] is room."""
    count = minima.shape[1]
    bins = _U(count)
    for document in range(minima.shape[0]):
        least, signature = minima[document], signatures[document]
        empty = 0
        for place in range(count):
            signature[place] = least[place]
            places[empty] = place
            empty += least[place] == _NO_VALUE
        if empty == count:
            continue
        t = 0
        while empty > 0 and t < PROBES:
            left = 0
            for i in range(empty):
                place = places[i]
                value = least[probes[t, place]]
                signature[place] = value
                places[left] = place
                left += value == _NO_VALUE
            empty = left
            t += 1
        for i in range(empty):
            place = places[i]
            t = PROBES
            while signature[place] == _NO_VALUE and t < ROUNDS * count:
                z = probe + (_U(place) << _S32 | _U(t))
                z ^= z >> _S27
                z *= _MIX_1
                z ^= z >> _S33
                z *= _MIX_2
                z ^= z >> _S27
                signature[place] = least[(z >> _S32) * bins >> _S32]
                t += 1
            following = place
            while signature[place] == _NO_VALUE:
                following = following + 1 if following + 1 < count else 0
                signature[place] = least[following]


def _first_probes(bins: int, probe: np.uint64) -> NDArray[np.uint32]:
    """uint32 [PROBES, bins]: where the first probes of each bin look."""
    z = probe + (np.arange(bins, dtype=np.uint64) << _S32 | np.arange(PROBES, dtype=np.uint64)[:, None])
    z = (z ^ z >> _S27) * _MIX_1
    z = (z ^ z >> _S33) * _MIX_2
    z ^= z >> _S27
    return ((z >> _S32) * _U(bins) >> _S32).astype(np.uint32)


class Sketch(Minima):
    """The least value in each of `num_perm` bins; fingerprints lie without gaps."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        multiplier, addend, probe = words(family, 3)
        self._multiplier, self._addend, self._probe = _U(multiplier | 1), _U(addend), _U(probe)
        self._probes = _first_probes(self._columns, self._probe)

    def fold(self, fingerprints: Fingerprints) -> NDArray[np.uint32]:
        minima = np.empty((len(fingerprints), self._columns), np.uint32)
        _fold(fingerprints.values, fingerprints.offset, self._multiplier, self._addend, minima)
        return minima

    def finish(self, state: NDArray[np.uint32]) -> NDArray[np.uint32]:
        signatures = np.empty_like(state)
        _fill(state, self._probes, self._probe, np.empty(self._columns, np.int32), signatures)
        return signatures
