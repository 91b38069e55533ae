"""Families whose sketch is the minimum of each function over a set: a column a lane (kernels/functions.cu)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.cuda.launcher import LANES, Argument, Machine
from gpulsh.backends.cuda.sketches import Minima
from gpulsh.params import Family
from gpulsh.permutations import word_array, word_pairs, words


class Sketch(Minima):
    """The minima, by the family's kernel."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self.dtype = np.dtype(family.value_type).type
        self._kernel = f"wrapped_{family.value_type}" if family.sketch == "wrapped" else family.sketch
        tables = TABLES[family.sketch](family)
        self._tables = [machine.arrays.asarray(table) if isinstance(table, np.ndarray) else table for table in tables]

    def fold(self, fingerprints: Fingerprints) -> Array:
        return self.by_spans("functions", self._kernel, fingerprints, *self._tables, rows=-(-self.columns // LANES))


def _affine61(family: Family) -> Sequence[Argument]:
    """a x + b modulo 2^61 - 1, a not 0."""
    drawn, prime = word_array(family, 2 * family.num_perm).reshape(-1, 2), np.uint64((1 << 61) - 1)
    return drawn[:, 0] % (prime - np.uint64(1)) + np.uint64(1), drawn[:, 1] % prime


def _c_minhash(family: Family) -> Sequence[Argument]:
    """pi(sigma(x) + i), both modulo 2^32; the kernel reads nothing but the fingerprints."""
    multiplier, addend, keys = words(family, 3)
    return np.uint64(multiplier | 1), np.uint64(addend), np.uint32(keys >> 32), np.uint32(keys & 0xFFFFFFFF)


def _multiply_shift(family: Family) -> Sequence[Argument]:
    """The upper half of a x + b modulo 2^64."""
    drawn = word_array(family, 2 * family.num_perm).reshape(-1, 2)
    return drawn[:, 0] | np.uint64(1), drawn[:, 1].copy()


def _tabulation(family: Family) -> Sequence[Argument]:
    """The four bytes of a fingerprint's upper half choose four entries of a function's table.

    The tables are transposed, so that the lanes of a warp read side by side.
    """
    drawn = (word_array(family, 1024 * family.num_perm) >> np.uint64(32)).astype(np.uint32)
    return (drawn.reshape(-1, 1024).T.copy(),)


def _wrapped(family: Family) -> Sequence[Argument]:
    """The rest of a x + b in a word, modulo a prime, cut to the width of a signature's values."""
    wrap = family.wrap
    word, prime, shift = np.uint64((1 << wrap.bits) - 1), np.uint64(wrap.modulus), wrap.modulus.bit_length()
    return *word_pairs(family), word, prime, np.int32(shift)


def _xor_masks(family: Family) -> Sequence[Argument]:
    """The fingerprint itself, then one mask a function."""
    drawn = (word_array(family, family.num_perm - 1) >> np.uint64(32)).astype(np.uint32)
    return (np.concatenate([np.zeros(1, np.uint32), drawn]),)


# The arguments of each family's kernel behind the fingerprints; `affine64` is a x + b modulo 2^64.
TABLES: dict[str, Callable[[Family], Sequence[Argument]]] = {
    "affine61": _affine61,
    "affine64": word_pairs,
    "c_minhash": _c_minhash,
    "multiply_shift": _multiply_shift,
    "tabulation": _tabulation,
    "wrapped": _wrapped,
    "xor_masks": _xor_masks,
}
