"""`splitmix_rounds`: a hash a fingerprint and round, until no bin is empty; then one a fingerprint and empty bin."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import inlined, kernel
from gpulsh.backends.cpu.sketches import Minima
from gpulsh.params import Family
from gpulsh.permutations import word_pairs

_U = np.uint64
_NONE, _GOLDEN = _U(protocol.NO_DIGEST), _U(protocol.GOLDEN)
_SHIFT, _LOWER = _U(protocol.ROUND_SHIFT), _U((1 << protocol.ROUND_SHIFT) - 1)
_M1, _M2 = _U(0xBF58476D1CE4E5B9), _U(0x94D049BB133111EB)
_S27, _S30, _S31 = _U(27), _U(30), _U(31)


@inlined
def _hashed(word):
    word += _GOLDEN
    word = (word ^ word >> _S30) * _M1
    word = (word ^ word >> _S27) * _M2
    return word ^ word >> _S31


@kernel
def _fold(values, offset, rounds, own, state):
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
                word = _hashed(row[i] ^ rounds[number])
                place = word & mask
                empty -= found[place] == _NONE
                found[place] = min(found[place], _U(number) << _SHIFT | word & _LOWER)
            number += 1
        for place in range(bins if empty > 0 else 0):
            if found[place] == _NONE:
                least = _NONE
                for i in range(row.size):
                    least = min(least, _hashed(row[i] ^ own[place]))
                found[bins + place] = least


class Sketch(Minima):
    """For each bin the least value of the first round that reached it, and for each bin left empty the least hash."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self._bins, self.columns = family.num_perm, 2 * family.num_perm
        self._words = word_pairs(family)

    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        _fold(fingerprints.values, fingerprints.offset, *self._words, minima)

    def finish(self, state: Values) -> Values:
        thrown, own = state[:, : self._bins], state[:, self._bins :]
        number = np.arange(self._bins, 2 * self._bins, dtype=np.uint64) << _SHIFT
        filled = np.where(thrown == _NONE, number | own & _LOWER, thrown)
        filled[(state == _NONE).all(axis=1)] = _NONE
        return filled
