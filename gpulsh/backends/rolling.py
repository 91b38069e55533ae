"""Rabin's and Karp and Rabin's fingerprints of shingles, for arrays of NumPy or CuPy; the reference has its own.

`protocol` defines them. They take whole arrays through as many steps as a shingle has tokens.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Tokens
from gpulsh.backends.mixing import mixed
from gpulsh.backends.protocol import STREAM_SHINGLE
from gpulsh.params import Shingling
from gpulsh.ragged import offsets
from gpulsh.secret import SHINGLE, EvidenceKeys

_U = np.uint64
_PRIME_BITS = _U(61)
_PRIME = _U((1 << 61) - 1)


def rolled(tokens: Tokens, shingling: Shingling, keys: EvidenceKeys | None) -> Fingerprints:
    """`Backend.shingles` by `shingling.hash`, one of these two."""
    base = (STREAM_SHINGLE if keys is None else int(keys.words[SHINGLE])) % int(_PRIME)
    sizes = tokens.lengths
    shingles = np.where(sizes > 0, np.maximum(sizes - shingling.size, 0) + 1, 0)
    offset = offsets(shingles)
    total = int(offset[-1])
    if not total:
        return Fingerprints(np.zeros(0, np.uint64, like=tokens.values), offset)
    places = np.arange(total, dtype=np.int64, like=offset)
    row = np.searchsorted(offset, places, side="right") - 1
    first, last = tokens.offset[row] + (places - offset[row]), tokens.offset[row + 1] - 1
    found = np.zeros(total, np.uint64, like=tokens.values) + _U(1)
    for place in range(shingling.size):
        at = first + place
        token = tokens.values[np.minimum(at, last)]
        longer = _times_x64(found) ^ token if shingling.hash == "rabin" else _less(_times(found, base) + _less(token))
        found = np.where(at <= last, longer, found)
    return Fingerprints(mixed(found), offset)


def _times_x64(f: Array) -> Array:
    """f * X^64, which is f * (X^4 + X^3 + X + 1): what that has from X^64 on, four bits, again times this."""
    over = f >> _U(60) ^ f >> _U(61) ^ f >> _U(63)
    return _times_rest(f) ^ _times_rest(over)


def _times_rest(f: Array) -> Array:
    return f << _U(4) ^ f << _U(3) ^ f << _U(1) ^ f


def _times(a: Array, b: int) -> Array:
    """A number below 2^64 that is a * b modulo the prime, a and b being less than it: by halves of 31 bits."""
    high, low = a >> _U(31), a & _U((1 << 31) - 1)
    over, under = _U(b >> 31), _U(b & (1 << 31) - 1)
    middle = high * under + low * over  # times 2^31, of which 2^61 is 1
    return (high * over << _U(1)) + (middle >> _U(30)) + ((middle & _U((1 << 30) - 1)) << _U(31)) + low * under


def _less(x: Array) -> Array:
    """x modulo the prime."""
    x = (x & _PRIME) + (x >> _PRIME_BITS)
    return np.where(x >= _PRIME, x - _PRIME, x)
