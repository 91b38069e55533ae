"""`gpulsh.hamming`: in how many bits two signatures differ."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, BitSignatures
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.params import check_type
from gpulsh.sketch.agreement import checked_pairs, of_pairs


def hamming(
    bit_signatures: BitSignatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
) -> Array:
    """In how many bits the rows of each pair differ, int64 [m]; `pairs` int64 [m, 2] are row numbers.

    Raises ParameterError where they are none of the BitSignatures'.

    >>> signatures = BitSignatures(np.array([[0], [7], [2**64 - 1]], np.uint64))
    >>> hamming(signatures, [[0, 1], [0, 2], [1, 2]], backend="cpu")
    array([ 3, 64, 61])
    """
    check_type("bit_signatures", bit_signatures, BitSignatures)
    ops = select_backend(backend, threads=threads)
    words, rows = ops.asarray(bit_signatures.values), checked_pairs(pairs, len(bit_signatures), ops)
    return of_pairs(rows, lambda some: distances(words[some[:, 0]], words[some[:, 1]]))


def distances(left: Array, right: Array) -> Array:
    """int64 [m]: the bits in which rows of uint64 [m, words] differ."""
    return ones(left ^ right).sum(axis=1, dtype=np.int64)


def ones(words: Array) -> Array:
    """How many bits of each are set, of uint64 words of any shape and array library.

    NumPy has an instruction for it; elsewhere fields of 2, 4 and 8 bits are added up (Warren, *Hacker's Delight*, 5-1).
    """
    if isinstance(words, np.ndarray):
        return np.bitwise_count(words)
    twos, fours, eights = map(np.uint64, (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
    words = words - (words >> np.uint64(1) & twos)
    words = (words & fours) + (words >> np.uint64(2) & fours)
    words = words + (words >> np.uint64(4)) & eights
    return words * np.uint64(0x0101010101010101) >> np.uint64(56)
