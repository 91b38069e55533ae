"""The words that other libraries draw for their functions.

Most take them of NumPy's `RandomState`, whose streams NumPy promises never to change (NEP 19).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np

from gpulsh.params import ForeignName, GivenFamily

MAX_SEED = 2**32 - 1  # of a RandomState
MERSENNE_61 = 2**61 - 1

Word = Literal["uint16", "uint32", "uint64"]
_MASK = 2**64 - 1


@lru_cache(maxsize=16)
def by_turns(
    name: ForeignName | Literal["affine32"], num_perm: int, seed: int, modulus: int, word: Word
) -> GivenFamily:
    """A multiplier from 1 on and an addend from 0 on, below `modulus`, function after function."""
    generator, dtype = np.random.RandomState(seed), np.dtype(word).type
    drawn = [int(generator.randint(1 - i % 2, modulus, dtype=dtype)) for i in range(2 * num_perm)]
    return given(name, seed, drawn[0::2], drawn[1::2])


@lru_cache(maxsize=16)
def at_once(name: ForeignName, num_perm: int, seed: int, modulus: int, word: Word) -> GivenFamily:
    """All multipliers, then all addends."""
    generator, dtype = np.random.RandomState(seed), np.dtype(word).type
    first, second = (generator.randint(low, modulus, num_perm, dtype=dtype).tolist() for low in (1, 0))
    return given(name, seed, first, second)


@lru_cache(maxsize=16)
def odd(name: Literal["affine32", "affine64"], num_perm: int, seed: int) -> GivenFamily:
    """All multipliers, of which half are drawn and made odd, then all addends."""
    bits = 32 if name == "affine32" else 64
    generator, dtype = np.random.RandomState(seed), np.uint32 if bits == 32 else np.uint64
    halves, addends = (generator.randint(0, 1 << most, num_perm, dtype=dtype).tolist() for most in (bits - 1, bits))
    return given(name, seed, [2 * half + 1 for half in halves], addends)


def given(name: ForeignName | Literal["affine32"], seed: int, first: list[int], second: list[int]) -> GivenFamily:
    """The family of these words."""
    return GivenFamily(name=name, num_perm=len(first), seed=seed, first=tuple(first), second=tuple(second))


def mersenne_twister(seed: int) -> Iterator[int]:
    """Integers below 2^64: `std::mt19937_64` of C++ (Matsumoto, Nishimura 2000, the 64-bit version).

    >>> next(mersenne_twister(5489))
    14514284786278117030
    """
    state = [seed & _MASK]
    for i in range(1, 312):
        state.append(6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i & _MASK)
    while True:
        for i in range(312):
            joined = state[i] & 0xFFFFFFFF80000000 | state[(i + 1) % 312] & 0x7FFFFFFF
            state[i] = state[(i + 156) % 312] ^ joined >> 1 ^ (0xB5026F5AA96619E9 if joined & 1 else 0)
        for word in state:
            word ^= word >> 29 & 0x5555555555555555
            word ^= word << 17 & 0x71D67FFFEDA60000
            word ^= word << 37 & 0xFFF7EEE000000000
            yield word ^ word >> 43
