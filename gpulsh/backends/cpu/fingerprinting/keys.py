"""Keys and the Unicode table in the form that kernels take, and the keys of places beyond the table."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Words
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import inlined, subroutine
from gpulsh.backends.cpu.vectors import get, mixed
from gpulsh.backends.hashing import public_words
from gpulsh.backends.unicode_table import unicode_table
from gpulsh.params import Reading
from gpulsh.secret import DIGITS, PLACES, TOKEN_FAR, EvidenceKeys

BITS = DIGITS.bit_length() - 1  # of a digit of a far place
DIGIT = DIGITS - 1
TOKENS_FAR = np.int64(TOKEN_FAR)  # a literal has its own type, for which functions would be compiled again

_U = np.uint64
_GOLDEN, _STREAM_TOKEN = _U(protocol.GOLDEN), _U(protocol.STREAM_TOKEN)
_ONE, _ASCII = _U(1), _U(0x80)


@inlined
def packing(value):
    """The distance from a place's key to the factor of a folded code point in its packed token."""
    return 8 * PLACES * np.int64(value >= _ASCII) - 16 * PLACES


@subroutine
def far_factor(number, keys, far):
    """The factor of the near secret keys, from the tables at `far`; 1 for the number 0."""
    low, middle, high = number & DIGIT, number >> BITS & DIGIT, number >> 2 * BITS
    tables = keys + 8 * far
    return get(tables + 8 * low) * get(tables + 8 * (DIGITS + middle)) * get(tables + 8 * (2 * DIGITS + high))


@subroutine
def far_key(place, keys, secret):
    """The key of a place beyond the table."""
    if secret:
        return get(keys + 8 * (place % PLACES)) * far_factor(place // PLACES, keys, TOKENS_FAR)
    return mixed(_STREAM_TOKEN + _U(place + 1) * _GOLDEN) | _ONE


class KernelTable(NamedTuple):
    """Both stages of the Unicode table, one after the other; the caller of a kernel holds `stages`."""

    stages: NDArray[np.uint8]
    address: int


@cache
def kernel_table(reading: Reading) -> KernelTable:
    """The shipped table."""
    stages = np.concatenate([stage.view(np.uint8) for stage in unicode_table(reading)])
    return KernelTable(stages, stages.ctypes.data)


class KernelKeys(NamedTuple):
    """Keys for kernels; the caller of a kernel holds `words`.

    Before `address` are 2 * PLACES factors of a folded code point in its packed token, by its place: for ASCII, then
    for other code points.
    """

    words: Words
    address: int
    secret: bool


@lru_cache(maxsize=8)
def kernel_keys(keys: EvidenceKeys | None) -> KernelKeys:
    """The keys of evidence, or the public keys, which are fewer."""
    words = public_words() if keys is None else keys.words
    packing = np.concatenate([words[:PLACES], words[:PLACES]])
    packing[:8] = _ONE << np.arange(0, 64, 8, dtype=np.uint64)  # the first 8 bytes of a word are side by side
    words = np.concatenate([packing, words])
    return KernelKeys(words, words.ctypes.data + packing.nbytes, keys is not None)
