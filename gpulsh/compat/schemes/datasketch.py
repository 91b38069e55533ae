"""`DatasketchMinHash` and `DatasketchWeightedMinHash`: the values of datasketch, of each of its schemes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, WeightedFingerprints, on_host
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_choice, set_flag, set_integer
from gpulsh.compat.schemes import sketches
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_NUM_PERM, GivenFamily
from gpulsh.ragged import sorted_distinct
from gpulsh.sketch.base import checked_pairs, map_pairs
from gpulsh.sketch.weighted import dense_vectors, weighted_rows

Scheme = Literal["affine32", "affine64", "legacy"]


@dataclass(frozen=True, kw_only=True)
class DatasketchMinHash(sketches.TokenSketch):
    """The `hashvalues` of `datasketch.MinHash(num_perm, seed, scheme=scheme)` for the same tokens.

    ==========  =======================  ============================================================================
    scheme      hash of a token          value
    ==========  =======================  ============================================================================
    `affine32`  SHA-1, its first 32 bits a * fmix32(x) + b mod 2^32, a odd, uint32; the default of datasketch 2.0
    `affine64`  SHA-1, its first 64 bits a * fmix64(x) + b mod 2^64, a odd, uint64
    `legacy`    SHA-1, its first 32 bits (a * x + b mod 2^64) mod 2^61 - 1, its lower 32 bits, uint32 here and uint64
                                         there; the only one before 2.0, the same since 1.5.9
    ==========  =======================  ============================================================================

    fmix is the finalizer of MurmurHash3. With your own `hashfunc`, call the sketch on its hashes. Checked against
    datasketch 2.0.0.

    >>> sketch = DatasketchMinHash(num_perm=4, scheme="legacy")
    >>> sketch.from_tokens([[b"a", b"b"]], backend="cpu").values.tolist()
    [[297616339, 739114274, 2013617805, 1974455217]]
    """

    scheme: Scheme = "affine32"

    @property
    def functions(self) -> GivenFamily:
        """The functions by which backends make signatures. ParameterError for a wrong parameter."""
        check_choice("scheme", self.scheme, get_args(Scheme))
        if self.scheme == "legacy":
            return sketches.draw_interleaved("wrapped61_low", self.num_perm, self.seed)
        return sketches.draw_odd(self.scheme, self.num_perm, self.seed)

    @property
    def token_hash(self) -> sketches.Hash:
        """SHA-1 of a token's bytes, its first 32 or 64 bits."""
        return sketches.Sha1(64 if self.scheme == "affine64" else 32)

    def _prepare_hashes(self, values: Array, ops: Backend) -> Array:
        if self.scheme == "affine32":
            sketches.check_halves(values)
        return premix(values, self.scheme)


def premix(values: Array, scheme: Scheme) -> Array:
    """Hashes as the functions of a scheme take them, in `affine32` in upper halves; arrays of NumPy or CuPy."""
    if scheme == "legacy":
        return values
    if scheme == "affine64":
        return sketches.murmur_finalizer(values)
    mixed = sketches.murmur_finalizer(values.astype(np.uint32)).astype(np.uint64)
    mixed <<= np.uint64(32)
    return mixed


AT_ONCE = 1 << 20  # numbers of rows, samples and elements


class Drawn(NamedTuple):
    """The random numbers of each sample and dimension, float32 [num_perm, dim]."""

    scale: NDArray[np.float32]
    level: NDArray[np.float32]
    shift: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class DatasketchWeightedMinHash:
    """The `hashvalues` of `datasketch.WeightedMinHashGenerator(dim, num_perm, seed)` for the same vectors.

    Each sample is the dimension that it chose and how often its scale fits below the weight (Ioffe 2010). `many` gives
    the values of `minhash_many`, which differ. The logarithm is NumPy's of float32 on the host: another build of NumPy
    may change its last bit, in datasketch, too. All other steps are the same on every backend. Checked against
    datasketch 2.0.0.

    >>> sketch = DatasketchWeightedMinHash(dim=3, num_perm=2)
    >>> sketch([[1, 0, 3]], backend="cpu").tolist()
    [[[2, 1], [2, 2]]]
    """

    dim: int
    num_perm: int = 128
    seed: int = 1
    many: bool = False

    def __post_init__(self) -> None:
        set_integer(self, "dim", 1, 1 << 40)
        set_integer(self, "num_perm", 1, MAX_NUM_PERM)
        set_integer(self, "seed", 0, sketches.MAX_SEED)
        set_flag(self, "many")

    def __call__(self, vectors: object, *, backend: BackendName = "auto", threads: int | None = None) -> Array:
        """int64 [n, num_perm, 2] of non-negative numbers [n, dim], dense or sparse; all -1 where a row is zero.

        datasketch raises an error for such a row, or gives None. ParameterError if a number is negative or not
        finite.
        """
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            given: Any = vectors if hasattr(vectors, "tocsr") else dense_vectors(vectors, ops)
            if given.shape[1] != self.dim:
                raise ParameterError(f"vectors has shape {tuple(given.shape)}; give numbers of shape [n, {self.dim}]")
            rows = weighted_rows(given.astype(np.float32), ops)  # a weight that rounds to 0 would have no logarithm
            logarithms = ops.asarray(np.log(on_host(rows.weight).astype(np.float32)))
            tables = Drawn(*map(ops.asarray, draw_numbers(self.dim, self.num_perm, self.seed)))
            samples = np.zeros((len(rows), self.num_perm, 2), np.int64, like=logarithms) - 1
            sizes = on_host(rows.lengths)
            for size in sorted_distinct(sizes[sizes > 0]).tolist():
                which, step = np.flatnonzero(sizes == size), max(AT_ONCE // (self.num_perm * size), 1)
                for start in range(0, len(which), step):
                    at = ops.asarray(which[start : start + step])
                    samples[at] = self._samples(rows, logarithms, at, size, tables)
            return samples

    def estimate(
        self, samples: Array, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """The estimate of the weighted Jaccard similarity of each pair of rows, float64 [m]; 0 where one is zero."""
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            values, rows = ops.asarray(samples), checked_pairs(pairs, len(samples), ops)

            def shares(some: Array) -> Array:
                left, right = values[some[:, 0]], values[some[:, 1]]
                return ((left == right).all(axis=2) & (left[:, :, 0] >= 0)).mean(axis=1)

            return map_pairs(rows, shares)

    def _samples(self, rows: WeightedFingerprints, logarithms: Array, which: Array, size: int, drawn: Drawn) -> Array:
        """int64 [rows, num_perm, 2] of rows of `size` weights each."""
        places = rows.offset[which][:, None] + np.arange(size, dtype=np.int64, like=which)
        dimension = rows.values[places].astype(np.int64)
        scale, level, shift = (np.moveaxis(table[:, dimension], 0, 1) for table in drawn)  # [rows, num_perm, size]
        steps = np.floor(logarithms[places][:, None, :] / scale + shift)
        if self.many:
            found = level - (steps - shift + np.float32(1)) * scale
        else:
            found = level - (steps - shift) * scale - scale
        first = np.argmin(found, axis=2)
        chosen = np.take_along_axis(dimension, first, axis=1)
        step = np.take_along_axis(steps, first[:, :, None], axis=2)[:, :, 0].astype(np.int64)
        return np.stack((chosen, step), axis=2)


@lru_cache(maxsize=4)
def draw_numbers(dim: int, num_perm: int, seed: int) -> Drawn:
    """The random numbers of datasketch's generator."""
    generator, shape = np.random.RandomState(seed), (num_perm, dim)
    scale = generator.gamma(2, 1, shape).astype(np.float32)
    level = np.log(generator.gamma(2, 1, shape)).astype(np.float32)
    return Drawn(scale, level, generator.uniform(0, 1, shape).astype(np.float32))
