"""The only random numbers in the library: coefficients of hash families, drawn from (family, seed, num_perm).

The generator is SplitMix64 (Steele, Lea, Flood 2014), read at counter positions. So a draw depends neither on NumPy's
version nor on `num_perm`: the first 64 functions of a family of 128 are the family of 64.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.params import Family, GivenFamily

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Coefficients(NamedTuple):
    """The functions h_i(x) = multiplier[i] * x + addend[i] mod 2^32."""

    multiplier: NDArray[np.uint32]  # [num_perm], odd if drawn
    addend: NDArray[np.uint32]  # [num_perm]


def splitmix64(state: int) -> int:
    """The output of SplitMix64 at `state`, an integer below 2^64.

    >>> hex(splitmix64(0x9E3779B97F4A7C15))  # the first output for seed 0
    '0xe220a8397b1dcdaf'
    """
    z = state & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def words(family: Family, count: int) -> list[int]:
    """Integers below 2^64 for a family, from the stream of its name and seed; a larger `count` adds words.

    >>> words(Family(name="one_permutation", seed=1), 2) == words(
    ...     Family(name="one_permutation", seed=1), 3
    ... )[:2]
    True
    """
    return [int(word) for word in word_array(family, count)]


def word_array(family: Family, count: int) -> NDArray[np.uint64]:
    """`words`, as uint64 [count]."""
    return stream(family.name, family.seed, count)


def word_pairs(family: Family) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Two words for each value, uint64 [num_perm] each: given ones, or `words` in turn."""
    if isinstance(family, GivenFamily):
        return np.array(family.first, np.uint64), np.array(family.second, np.uint64)
    drawn = word_array(family, 2 * family.num_perm)
    return drawn[0::2].copy(), drawn[1::2].copy()


def stream(name: str, seed: int, count: int) -> NDArray[np.uint64]:
    """uint64 [count]: the stream of `name` and `seed`; a larger `count` adds words."""
    return words_at(name, seed, np.arange(count, dtype=np.uint64))


def words_at(name: str, seed: int, places: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The words of the same stream at `places`, uint64 of any shape and array library."""
    named = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    return _outputs_at(splitmix64(splitmix64(seed + _GAMMA) ^ named), places)


def _outputs_at(start: int, places: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The outputs at `places` of the stream that begins at `start`."""
    return splitmix64_array(places * np.uint64(_GAMMA) + np.uint64((start + _GAMMA) & _MASK))


def splitmix64_array(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`splitmix64` of each of an array, of any array library: a bijection with full avalanche."""
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


@lru_cache(maxsize=64)
def coefficients(family: Family) -> Coefficients:
    """Draw the functions of `family`.

    >>> coefficients(Family(num_perm=2, seed=1)).multiplier % 2
    array([1, 1], dtype=uint32)
    """
    if isinstance(family, GivenFamily):
        drawn = Coefficients(*(column.astype(np.uint32) for column in word_pairs(family)))
    else:
        draws = _outputs_at(splitmix64(family.seed + _GAMMA), np.arange(family.num_perm, dtype=np.uint64))
        drawn = Coefficients((draws >> np.uint64(32)).astype(np.uint32) | np.uint32(1), draws.astype(np.uint32))
    for column in drawn:
        column.flags.writeable = False  # the cache gives them to others, too
    return drawn
