"""One permutation hashing: a multiply-add, a bin and a minimum a fingerprint, however long the signature is.

It wins over MinHash when documents have more shingles than a few times the signature's length. For a short document,
most bins are filled by probing, which takes longer than minima. A single shingle needs no probe.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends import hashing, protocol
from gpulsh.backends.cpu.kernel import inlined, kernel
from gpulsh.backends.cpu.sketches import Minima
from gpulsh.backends.cpu.sketches.bins import AHEAD, empty_bins, keep_least
from gpulsh.backends.cpu.sketches.minhash import TILE
from gpulsh.backends.cpu.vectors import mixed
from gpulsh.params import Family
from gpulsh.permutations import words

PROBES = 16  # of each bin, looked up; the rest are computed
AT_ONCE = 32  # of the rest
ROUNDS = 64  # times as many probes as there are bins; then the next bin that has a value

_U = np.uint64
_S32 = _U(32)
_LOWER, _UPPER = _U(0xFFFFFFFF), _U(0xFFFFFFFF << 32)
_NO_VALUE = np.uint32(protocol.NO_VALUE)
_MOST = _U(protocol.NO_VALUE - 1)


@kernel
def _fold(values, offset, multiplier, addend, thrown, minima):
    bins = _U(minima.shape[1])
    for document in range(offset.size - 1):
        least = minima[document]
        least[:] = _NO_VALUE
        begin, end = offset[document], offset[document + 1]
        for first in range(begin, end, TILE):
            source = values[first : min(first + TILE, end)]
            for i in range(source.size):  # in vectors
                y = multiplier * source[i] + addend
                thrown[i] = (y >> _S32) * bins & _UPPER | min(y & _LOWER, _MOST)
            keep_least(thrown, source.size, least)


@inlined
def _only_value(least):
    """The value of all bins that have one, NO_VALUE where they differ."""
    low, high = _NO_VALUE, np.uint32(0)
    for value in least:
        low = min(low, value)
        high = max(high, value if value != _NO_VALUE else np.uint32(0))
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
        empty = empty_bins(least, places)
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
                    hashed = mixed(probe + (_U(place) << _S32 | _U(t + j)))
                    drawn[j] = (hashed >> _S32) * bins >> _S32
                for j in range(min(AT_ONCE, ROUNDS * count - t)):
                    if signature[place] == _NO_VALUE:
                        signature[place] = least[drawn[j]]
                t += AT_ONCE
            following = np.int64(place)
            while signature[place] == _NO_VALUE:
                following = following + 1 if following + 1 < count else 0
                signature[place] = least[following]


def _first_probes(bins: int, probe: np.uint64) -> NDArray[np.uint32]:
    """uint32 [PROBES, bins]: where the first probes of each bin look."""
    place, t = np.arange(bins, dtype=np.uint64), np.arange(PROBES, dtype=np.uint64)[:, None]
    drawn: NDArray[np.uint64] = hashing.mixed(probe + (place << _S32 | t))
    return ((drawn >> _S32) * _U(bins) >> _S32).astype(np.uint32)


class Sketch(Minima):
    """The least value in each of `num_perm` bins."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        multiplier, addend, probe = words(family, 3)
        self._multiplier, self._addend, self._probe = _U(multiplier | 1), _U(addend), _U(probe)
        self._probes = _first_probes(self.columns, self._probe)

    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        drawn = self._multiplier, self._addend
        _fold(fingerprints.values, fingerprints.offset, *drawn, np.empty(TILE, np.uint64), minima)

    def finish(self, state: Values) -> Values:
        least, places = np.empty(self.columns, np.uint32), np.empty(self.columns + AHEAD, np.uint32)
        _fill(state, self._probes, self._probe, least, places, np.empty(AT_ONCE, np.uint64))
        return state
