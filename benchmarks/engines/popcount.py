"""All pairs, one after another: an exclusive or and a population count each, made of vector instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.engines.bits import BitsEngine

BLOCK = 1024
_S1, _S2, _S4, _S56 = map(np.uint64, (1, 2, 4, 56))
_TWOS, _FOURS, _EIGHTS = map(np.uint64, (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
_SUM = np.uint64(0x0101010101010101)


class Popcount(BitsEngine):
    name = "popcount"
    note = "a loop over all pairs: no library, but what any search has to beat"

    def near_pairs(self, signatures: NDArray[np.uint64], distance: int) -> NDArray[np.int64]:
        room = 1 << 10
        while True:
            pairs = np.empty((room, 2), np.int64)
            found = _near(signatures, np.uint64(distance), pairs)
            if found <= room:
                return pairs[:found]
            room = found


@njit(cache=False)
def _ones(word: Any) -> Any:
    word = word - (word >> _S1 & _TWOS)
    word = (word & _FOURS) + (word >> _S2 & _FOURS)
    word = word + (word >> _S4) & _EIGHTS
    return word * _SUM >> _S56  # the compiler makes one instruction of this where there is one


@njit(cache=False)
def _near(words: Any, distance: Any, pairs: Any) -> Any:
    """How many pairs there are; as many of them as there is room for are in `pairs`."""
    found = 0
    for i in range(words.size):
        one = words[i]
        for start in range(i + 1, words.size, BLOCK):
            block = words[start : start + BLOCK]
            near = 0
            for other in block:
                near += _ones(one ^ other) <= distance
            if near == 0:
                continue
            for j in range(block.size):
                if _ones(one ^ block[j]) <= distance:
                    if found < pairs.shape[0]:
                        pairs[found, 0], pairs[found, 1] = i, start + j
                    found += 1
    return found
