"""Hashes of `protocol` for arrays of NumPy or CuPy: `mix64`, public keys, Rabin's and Karp and Rabin's shingles.

And the random words of families of hash functions, as the kernels of the CPU and CUDA take them. The reference has its
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Tokens, Words
from gpulsh.backends.protocol import GOLDEN, MIX_1, MIX_2, NO_DIGEST, ROUND_SHIFT, STREAM_SHINGLE, STREAM_TOKEN
from gpulsh.params import Family, Shingling
from gpulsh.permutations import word_array, word_pairs, words
from gpulsh.ragged import offsets, row_of
from gpulsh.secret import LONGEST_SHINGLE, PLACES, SHINGLE, EvidenceKeys

_U = np.uint64
_PRIME_BITS = _U(61)
_PRIME = _U((1 << 61) - 1)


def mix64(x: Array) -> Array:
    """`mix64` of each of uint64 `x`."""
    x = (x ^ x >> _U(27)) * _U(MIX_1)
    x = (x ^ x >> _U(33)) * _U(MIX_2)
    return x ^ x >> _U(27)


@cache
def place_keys(stream: int, count: int) -> Words:
    """key(stream, place) for the first `count` places."""
    x = np.arange(1, count + 1, dtype=np.uint64) * _U(GOLDEN) + np.full(count, stream, np.uint64)
    keys: Words = mix64(x) | _U(1)
    return keys


def public_words() -> Words:
    """The public keys of a token's near places and of a shingle, in the order of a secret's first words."""
    return np.concatenate([place_keys(STREAM_TOKEN, PLACES), place_keys(STREAM_SHINGLE, LONGEST_SHINGLE)])


def rolled(tokens: Tokens, shingling: Shingling, keys: EvidenceKeys | None) -> Fingerprints:
    """`Backend.shingles` for `shingling.hash` "rabin" or "karp_rabin", one token of all shingles at a time."""
    base = (STREAM_SHINGLE if keys is None else int(keys.words[SHINGLE])) % int(_PRIME)
    sizes = tokens.lengths
    shingles = np.where(sizes > 0, np.maximum(sizes - shingling.size, 0) + 1, 0)
    offset = offsets(shingles)
    total = int(offset[-1])
    if not total:
        return Fingerprints(np.zeros(0, np.uint64, like=tokens.values), offset)
    places = np.arange(total, dtype=np.int64, like=offset)
    row = row_of(offset, places)
    first, last = tokens.offset[row] + (places - offset[row]), tokens.offset[row + 1] - 1
    found = np.zeros(total, np.uint64, like=tokens.values) + _U(1)
    for place in range(shingling.size):
        at = first + place
        token = tokens.values[np.minimum(at, last)]
        longer = (
            _times_x64(found) ^ token if shingling.hash == "rabin" else _reduced(_times(found, base) + _reduced(token))
        )
        found = np.where(at <= last, longer, found)
    return Fingerprints(mix64(found), offset)


def _times_x64(f: Array) -> Array:
    """f * X^64 = f * (X^4 + X^3 + X + 1); its four bits from X^64 on are reduced the same way."""
    f = f ^ f >> _U(60) ^ f >> _U(61) ^ f >> _U(63)  # of the sum of both, because multiplication distributes
    return f << _U(4) ^ f << _U(3) ^ f << _U(1) ^ f


def _times(a: Array, b: int) -> Array:
    """A number below 2^64 that equals a * b modulo the prime, for a and b below it; by halves of 31 bits."""
    high, low = a >> _U(31), a & _U((1 << 31) - 1)
    over, under = _U(b >> 31), _U(b & (1 << 31) - 1)
    middle = high * under + low * over  # times 2^31, and 2^61 is 1
    return (high * over << _U(1)) + (middle >> _U(30)) + ((middle & _U((1 << 30) - 1)) << _U(31)) + low * under


def _reduced(x: Array) -> Array:
    """x modulo the prime."""
    x = (x & _PRIME) + (x >> _PRIME_BITS)
    return np.where(x >= _PRIME, x - _PRIME, x)


def rounds_joined(state: Array) -> Array:
    """uint64 [n, bins]: signatures of `splitmix_rounds`, of `state` [n, 2 bins]: values thrown, then own ones."""
    bins, none = state.shape[1] // 2, _U(NO_DIGEST)
    number = np.arange(bins, 2 * bins, dtype=np.uint64, like=state) << _U(ROUND_SHIFT)
    own = number | state[:, bins:] & _U((1 << ROUND_SHIFT) - 1)
    found = np.where(state[:, :bins] == none, own, state[:, :bins])
    found[(state == none).all(axis=1)] = none
    return found


# Families whose sketch is the minimum of each function over a set. `minhash`, the default, has a file of its own.
FUNCTIONS = ("affine61", "affine64", "c_minhash", "multiply_shift", "tabulation", "wrapped", "xor_masks")


def function_tables(family: Family) -> Sequence[Array]:
    """NumPy arrays and scalars: the arguments of the kernel `family.sketch` after the fingerprints."""
    count, sketch = family.num_perm, family.sketch
    if sketch == "affine61":  # a x + b modulo the prime, a not 0
        a, b = word_array(family, 2 * count).reshape(-1, 2).T
        return a % (_PRIME - _U(1)) + _U(1), b % _PRIME
    if sketch == "c_minhash":  # pi(sigma(x) + i), both modulo 2^32
        multiplier, addend, keys = words(family, 3)
        return _U(multiplier | 1), _U(addend), np.uint32(keys >> 32), np.uint32(keys & 0xFFFFFFFF)
    if sketch == "multiply_shift":  # the upper half of a x + b modulo 2^64
        a, b = word_array(family, 2 * count).reshape(-1, 2).T
        return a | _U(1), b.copy()
    if sketch == "tabulation":  # uint32 [4, 256, functions]: for a byte, the entries of all functions are side by side
        drawn = (word_array(family, 1024 * count) >> _U(32)).astype(np.uint32)
        return (drawn.reshape(-1, 4, 256).transpose(1, 2, 0).copy(),)
    if sketch == "xor_masks":  # the upper half of a fingerprint, exclusive-or a mask; the first function has none
        drawn = (word_array(family, count - 1) >> _U(32)).astype(np.uint32)
        return (np.concatenate([np.zeros(1, np.uint32), drawn]),)
    if sketch == "affine64":  # a x + b modulo 2^64
        return word_pairs(family)
    wrap = family.wrap  # the rest of a x + b in a word, modulo a prime
    return *word_pairs(family), _U((1 << wrap.bits) - 1), _U(wrap.modulus), np.int32(wrap.modulus.bit_length())
