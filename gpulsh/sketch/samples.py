"""Broder's sketches: a sample of each set, by one permutation of all fingerprints.

`gpulsh.BottomS` (his MIN_s) takes the least of a set, and `gpulsh.ModM` (his MOD_m) the multiples of a number, which
estimate containment, too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Samples
from gpulsh.backends.hashing import mix64
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_type, set_integer
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_SEED, Named
from gpulsh.permutations import stream
from gpulsh.ragged import concat_rows, counts_by_row, expand_ranges, offsets, row_of, select_rows
from gpulsh.sketch.base import TextSketch, check_maker, checked_estimate, checked_pairs, map_pairs
from gpulsh.text.documents import Documents

MANY = 1 << 20  # members of a sample, whose number's chances are not added up one by one


@dataclass(frozen=True, kw_only=True)
class SampleSketch(TextSketch[Samples], Named):
    """Samples of the permuted fingerprints of sets; each kind of sketch has its own rule of choice.

    The permutation is y = mix64((a | 1) * x + b modulo 2^64), a and b drawn from `seed`; mix64 as in
    `gpulsh.backends.protocol`.
    """

    seed: int = 1
    stream: ClassVar[str]

    def __post_init__(self) -> None:
        set_integer(self, "seed", 0, MAX_SEED)

    @abstractmethod
    def _choose(self, permuted: Fingerprints) -> Samples:
        """The samples of unique rows, which ascend."""

    @abstractmethod
    def _count_shared(self, samples: Samples, pairs: Array, ops: Backend) -> tuple[Array, Array]:
        """int64 [m] each: for each pair, the members of its union's sample in both sets, and all members."""

    @abstractmethod
    def _variance(self, value: float, size: int | None) -> float: ...

    def __call__(
        self, fingerprints: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Samples:
        """Samples of Fingerprints of n rows: `values` uint64, each row ascending, `offset` int64 [n + 1].

        Raises ParameterError for any other object.
        """
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            return replace(self._sample(fingerprints.moved(ops.asarray), ops), maker=self)

    def _sketch_documents(self, documents: Documents) -> Samples:
        samples = concat_rows([self._sample(rows, documents.ops) for rows in documents.fingerprints()])
        return replace(samples, maker=self)

    def estimate(
        self, samples: Samples, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """Estimate the Jaccard similarity of each pair of rows, float64 [m]; NaN where the samples say nothing.

        Raises ParameterError if another sketch made the samples, or `pairs` name no rows of them.
        """
        return self._estimate_pairs(self._count_shared, samples, pairs, backend, threads)

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """The theoretical standard deviation of the estimate at a similarity of `value` and a union of `size` shingles.

        Without `size`, `BottomS` takes a large union; `ModM` needs it. Raises ParameterError for a `value` outside 0 to
        1 and a `size` below 1.
        """
        return float(np.sqrt(max(self._variance(*checked_estimate(value, size)), 0.0)))

    def _estimate_pairs(
        self,
        shares: Callable[[Samples, Array, Backend], tuple[Array, Array]],
        samples: Samples,
        pairs: Array,
        backend: BackendName,
        threads: int | None,
    ) -> Array:
        check_type("samples", samples, Samples)
        check_maker("samples", samples, self)
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            rows, there = checked_pairs(pairs, len(samples), ops), samples.moved(ops.asarray)

            def ratio(some: Array) -> Array:
                part, whole = shares(there, some, ops)
                return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)

            return map_pairs(rows, ratio)

    def _sample(self, fingerprints: Fingerprints, ops: Backend) -> Samples:
        multiplier, addend = stream(self.stream, self.seed, 2)
        permuted = mix64(fingerprints.values * (multiplier | np.uint64(1)) + addend)
        return self._choose(ops.unique(Fingerprints(permuted, fingerprints.offset)))


@dataclass(frozen=True, kw_only=True)
class BottomS(SampleSketch):
    """The `size` least permuted fingerprints of each set, or all of a smaller set.

    The estimate is the share of the `size` least members of the union that are in both sets. It is unbiased, exact
    where the union has at most `size` members, and 0 for two empty documents. Source: Broder 1997, *On the resemblance
    and containment of documents*, theorem 1. Raises ParameterError for `size` outside 1 to 2^31.

    >>> from gpulsh.text.documents import shingle
    >>> sketch = BottomS(size=100)
    >>> samples = sketch(shingle(["a b c d e f", "a b c d e g", ""], backend="cpu"), backend="cpu")
    >>> sketch.estimate(samples, [[0, 1], [0, 2]], backend="cpu")
    array([0.33333333, 0.        ])
    """

    size: int = 128
    stream: ClassVar[str] = "bottom_s"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_integer(self, "size", 1, 2**31)

    def _choose(self, permuted: Fingerprints) -> Samples:
        sizes = np.minimum(permuted.lengths, self.size)
        return Samples(permuted.values[expand_ranges(permuted.offset[:-1], sizes)], offsets(sizes))

    def _count_shared(self, samples: Samples, pairs: Array, ops: Backend) -> tuple[Array, Array]:
        """A member of the union's sample in both sets occurs twice in the two samples."""
        two = select_rows(samples, pairs.reshape(-1))
        together = Fingerprints(two.values, two.offset[::2].copy())
        union = ops.unique(together)
        sizes = np.minimum(union.lengths, self.size)
        some = sizes > 0
        last = np.where(some, union.offset[:-1] + sizes - 1, 0)
        greatest = union.values[last] if len(union.values) else np.zeros(len(pairs), np.uint64, like=union.values)
        row = row_of(together.offset, np.arange(len(together.values), like=pairs))
        within = counts_by_row(together.values <= greatest[row], together.offset)
        return within - sizes, np.maximum(sizes, 1)  # two empty sets: 0 and not NaN

    def _variance(self, value: float, size: int | None) -> float:
        """The variance of a sample without replacement."""
        independent = value * (1 - value) / self.size
        if size is None:
            return independent
        return independent * (size - self.size) / (size - 1) if size > self.size else 0.0


@dataclass(frozen=True, kw_only=True)
class ModM(SampleSketch):
    """The permuted fingerprints that `modulus` divides: about n / modulus of a set of n.

    If L(A) is the sample of a set A, the estimate of resemblance is |L(A) and L(B)| / |L(A) or L(B)|, and of
    containment |L(A) and L(B)| / |L(A)|. Both are unbiased where the divisor is not 0, and NaN otherwise, a case that
    the theorem leaves out. Source: Broder 1997, *On the resemblance and containment of documents*, theorem 1, second
    and third estimate. Raises ParameterError for `modulus` outside 1 to 2^32.

    >>> from gpulsh.text.documents import shingle
    >>> sketch = ModM(modulus=1)  # keeps all
    >>> samples = sketch(shingle(["a b c d e", "a b c d e f"], backend="cpu"), backend="cpu")
    >>> (
    ...     sketch.estimate(samples, [[0, 1]], backend="cpu"),
    ...     sketch.estimate_containment(samples, [[0, 1]], backend="cpu"),
    ... )
    (array([0.5]), array([1.]))
    """

    modulus: int = 16
    stream: ClassVar[str] = "mod_m"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_integer(self, "modulus", 1, 2**32)

    def estimate_containment(
        self, samples: Samples, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """Estimate |A and B| / |A| of each pair (A, B), float64 [m]; NaN if A has no sample. Raises as `estimate`."""
        return self._estimate_pairs(self._count_contained, samples, pairs, backend, threads)

    def _choose(self, permuted: Fingerprints) -> Samples:
        left = permuted.values % np.uint64(self.modulus) == 0
        return Samples(permuted.values[left], offsets(left)[permuted.offset])

    def _count_shared(self, samples: Samples, pairs: Array, ops: Backend) -> tuple[Array, Array]:
        return ops.intersect(pairs, Fingerprints(samples.values, samples.offset))

    def _count_contained(self, samples: Samples, pairs: Array, ops: Backend) -> tuple[Array, Array]:
        return self._count_shared(samples, pairs, ops)[0], samples.lengths[pairs[:, 0]]

    def _variance(self, value: float, size: int | None) -> float:
        """The variance of a sample without replacement of k of the union, where k is binomial and not 0.

        Of many, the mean of 1 / k is the first terms of its series in 1 / mean.
        """
        if size is None:
            raise ParameterError("size is not given; give the number of shingles in the union of both documents")
        if self.modulus == 1 or size == 1:
            return 0.0
        mean = size / self.modulus
        if mean > MANY:
            return value * (1 - value) * (self.modulus * (1 + (1 - 1 / self.modulus) / mean) - 1) / (size - 1)
        spread = 12 * np.sqrt(mean) + 12
        k = np.arange(max(1, int(mean - spread)), min(size, int(mean + spread)) + 1)
        logarithms = np.cumsum(np.log(np.append(1, (size - k[:-1]) / (k[1:] * (self.modulus - 1.0)))))
        chances = np.exp(logarithms - logarithms.max())  # in proportion
        return float(value * (1 - value) * (chances * (size - k) / k).sum() / chances.sum() / (size - 1))
