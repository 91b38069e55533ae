"""`gpulsh.Hyperplanes`: bits of real vectors, dense or sparse, the same bits on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulsh.arrays import Array, BitSignatures, Values
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.permutations import words_at
from gpulsh.ragged import row_ranges
from gpulsh.sketch.bits import MAX_BITS, WORD_BITS, BitSketch
from gpulsh.sketch.weighted import check_real, dense_vectors

SCALE = 2.0**15  # the largest entry of a quantised row
MEAN = 16 * 255 // 2  # of the sum of 16 bytes, and the greatest deviation from it
MAX_ENTRIES = 1 << 27  # of a row: products with a hyperplane's are below 2^26, and their sum is exact in float64
AT_ONCE = 1 << 20  # coordinates of hyperplanes, or entries of sparse vectors, in memory
ROWS = 512  # dense vectors at once, at least, for each column of hyperplanes


@dataclass(frozen=True, kw_only=True)
class Hyperplanes(BitSketch):
    """A bit is 1 where a vector is on the positive side of a hyperplane through the origin, else 0.

    Charikar also sets the bit of a vector on the hyperplane. Random hyperplanes almost never contain a vector, except
    the zero vector; here it has no bit set, like an empty document in `SimHash`.

    - Each row is quantised to rint(x / max(|row|) * 2^15), which keeps its direction to some 2^-16 of its largest
      entry; its length has no influence.
    - A hyperplane's coordinate is the sum of 16 drawn bytes less its mean 2040, which is nearly normal. Words
      2 (384 c + b) and 2 (384 c + b) + 1 hold the bytes for column c and bit b.
    - Projections are sums of integers below 2^53: exact in float64, in any order and library.

    Source: Charikar 2002, *Similarity estimation techniques from rounding algorithms*, section 3; Goemans, Williamson
    1995. Raises ParameterError for `bits` other than multiples of 64 up to 384 and `seed` outside 0 to 2^64 - 1.

    >>> sketch = Hyperplanes(bits=384)
    >>> signatures = sketch(np.array([[1.0, 0.0], [2.0, 0.0], [-3.0, 0.0]]), backend="cpu")
    >>> sketch.estimate(signatures, [[0, 1], [0, 2]], backend="cpu").round(1)
    array([ 1., -1.])
    """

    def __call__(self, vectors: object, *, backend: BackendName = "auto", threads: int | None = None) -> BitSignatures:
        """BitSignatures [n, bits / 64] of real `vectors` [n, d]: an array, or a sparse array or matrix of scipy.

        Sparse vectors are projected on the host. The array library multiplies, on its own number of threads. Raises
        ParameterError for NaN, infinity, numbers that are not real, and more than 2^27 entries in a row.
        """
        ops, words = select_backend(backend, threads=threads), self.bits // WORD_BITS
        with ops.use_device():
            parts = self._sparse(vectors) if hasattr(vectors, "tocsr") else self._dense(vectors, ops)
            bits = [ops.asarray(_packed(sums, words)) for sums in parts]
            none = ops.asarray(np.empty((0, words), np.uint64))
            return BitSignatures(np.concatenate([none, *bits]), maker=self)

    def _dense(self, vectors: object, ops: Backend) -> Iterator[Array]:
        """Projections of some rows at a time, float64 [rows, bits]."""
        rows = dense_vectors(vectors, ops)
        count, width = rows.shape
        _check_entries(width)
        columns = ops.asarray(np.arange(width, dtype=np.uint64))
        some, wide = max(AT_ONCE // max(width, 1), ROWS), max(AT_ONCE // self.bits, 1)
        chunks = [slice(start, start + wide) for start in range(0, width, wide)]
        one = self._planes(columns, 0, self.bits) if len(chunks) == 1 else None
        for start in range(0, count, some):
            part = rows[start : start + some]
            sums = ops.asarray(np.zeros((len(part), self.bits)))
            largest = sums[:, 0]
            for chunk in chunks:
                largest = np.maximum(largest, abs(part[:, chunk].astype(np.float64)).max(axis=1))
            _check_finite(start + np.flatnonzero(~np.isfinite(largest)))
            scale = np.where(largest == 0, 1.0, largest)[:, None]
            for chunk in chunks:
                planes = self._planes(columns[chunk], 0, self.bits) if one is None else one
                sums = sums + np.rint(part[:, chunk].astype(np.float64) / scale * SCALE) @ planes
            yield sums

    def _sparse(self, vectors: Any) -> Iterator[Values]:
        """Projections of compressed rows, from only the columns that occur; as `_dense` gives them."""
        matrix = vectors.tocsr()
        check_real(matrix)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        offset = np.asarray(matrix.indptr, np.int64)
        _check_entries(int(np.diff(offset).max(initial=0)))
        for start, stop in row_ranges(offset, AT_ONCE, max(AT_ONCE // self.bits, 1)):
            here = slice(offset[start], offset[stop])
            values, sizes = matrix.data[here].astype(np.float64), np.diff(offset[start : stop + 1])
            row = np.repeat(np.arange(stop - start), sizes)
            _check_finite(start + row[~np.isfinite(values)])
            largest = np.zeros(stop - start)
            np.maximum.at(largest, row, abs(values))
            columns, place = np.unique(matrix.indices[here], return_inverse=True)
            quantised = np.rint(values / np.where(largest == 0, 1.0, largest)[row] * SCALE)
            shape = stop - start, len(columns)
            rows = type(matrix)((quantised, place, offset[start : stop + 1] - offset[start]), shape=shape)
            wide = min(max(AT_ONCE // max(len(columns), 1), 1), self.bits)
            bits = [(bit, min(wide, self.bits - bit)) for bit in range(0, self.bits, wide)]
            yield np.concatenate([rows @ self._planes(columns.astype(np.uint64), *some) for some in bits], axis=1)

    def _planes(self, columns: Array, first: int, count: int) -> Array:
        """float64 [columns, count]: coordinates of `count` hyperplanes from bit `first` on."""
        bits = np.arange(first, first + count, dtype=np.uint64, like=columns)
        place = (columns[:, None] * np.uint64(MAX_BITS) + bits) * np.uint64(2)
        pairs, four = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0001000100010001)  # of bytes; sums of them
        total = np.zeros_like(place)
        for word in (words_at("hyperplanes", self.seed, place + np.uint64(i)) for i in range(2)):
            total = total + (((word & pairs) + (word >> np.uint64(8) & pairs)) * four >> np.uint64(48))
        return total.astype(np.float64) - MEAN


def _packed(sums: Array, words: int) -> Array:
    """uint64 [n, words]: a bit for each of the sums [n, 64 * words], set where it is above 0."""
    places = np.arange(WORD_BITS, dtype=np.uint64, like=sums)
    return ((sums > 0).reshape(len(sums), words, WORD_BITS).astype(np.uint64) << places).sum(axis=2)


def _check_entries(count: int) -> None:
    if count > MAX_ENTRIES:
        raise ParameterError(f"a row of vectors has {count} entries; give at most {MAX_ENTRIES}")


def _check_finite(wrong: Array) -> None:
    """Raise ParameterError if there are `wrong` rows."""
    if len(wrong):
        raise ParameterError(f"vectors holds NaN or infinity in row {int(wrong[0])}; give finite numbers")
