"""Keyed hashes of byte strings: which of them are equal, though nobody can make two with one hash.

SipHash-2-4 with 128 bits (Aumasson, Bernstein 2012). Its key is part of the secret of a run. Among 10^10 values a
collision has a probability of 10^-19. The kernel loads Numba, so it is imported when it is needed.

Rejected: BLAKE2 of Python's `hashlib`, a call and an object for each value, and xxHash, whose key does not keep an
attacker from collisions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values


def keyed_hashes(values: Values, offset: Numbers, key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64 [n, 2]: the hash of `values[offset[i] : offset[i + 1]]`, uint8; `key` is uint64 [2].

    >>> key = np.array([0x0706050403020100, 0x0F0E0D0C0B0A0908])  # of the reference code's vectors
    >>> keyed_hashes(np.zeros(0, np.uint8), np.zeros(2, np.int64), key).tobytes().hex()
    'a3817f04ba25a8e66df67214c7550293'
    """
    from gpulsh.backends.cpu.siphash import hash_rows

    hashes = np.empty((len(offset) - 1, 2), np.uint64)
    hash_rows(values, offset, *key.astype(np.uint64), hashes)
    return hashes
