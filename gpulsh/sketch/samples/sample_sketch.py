"""Broder's sketches: a sample of a set, by a permutation of all fingerprints that every set shares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Samples
from gpulsh.backends.hashing import mixed
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.params import MAX_SEED, check_type, set_integer
from gpulsh.permutations import stream
from gpulsh.ragged import end_to_end
from gpulsh.sketch.agreement import check_estimated, check_maker, checked_pairs, of_pairs
from gpulsh.sketch.text_sketch import TextSketch
from gpulsh.text.documents import Documents


@dataclass(frozen=True, kw_only=True)
class SampleSketch(TextSketch[Samples]):
    """Samples of the permuted fingerprints of sets; all that a sketch of this kind says of itself is whom it samples.

    The permutation is y = mix64((a | 1) * x + b modulo 2^64), a and b drawn from `seed`; mix64 as in
    `gpulsh.backends.protocol`.
    """

    seed: int = 1
    stream: ClassVar[str]

    def __post_init__(self) -> None:
        set_integer(self, "seed", 0, MAX_SEED)

    @abstractmethod
    def _sampled(self, permuted: Fingerprints) -> Samples:
        """Of unique rows, ascending."""

    @abstractmethod
    def _shared(self, samples: Samples, pairs: Array, ops: Backend) -> tuple[Array, Array]:
        """Of each pair, int64 [m] how many of its union's sample are in both, and how many there are."""

    @abstractmethod
    def _variance(self, value: float, size: int | None) -> float: ...

    def __call__(
        self, fingerprints: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Samples:
        """Samples of Fingerprints of n rows: `values` uint64, each row ascending, `offset` int64 [n + 1].

        Raises ParameterError where it is given anything else.
        """
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        with ops.here():
            return replace(self._sample(fingerprints.moved(ops.asarray), ops), maker=self)

    def _of_documents(self, documents: Documents) -> Samples:
        samples = end_to_end([self._sample(rows, documents.ops) for rows in documents.fingerprints()])
        return replace(samples, maker=self)

    def estimate(
        self, samples: Samples, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """The estimate of Jaccard similarity of each pair of rows, float64 [m]; NaN where nothing is known of it.

        Raises ParameterError where another sketch made the samples, or `pairs` are no rows of them.
        """
        return self._of_pairs(self._shared, samples, pairs, backend, threads)

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """What theory says of the estimate where the similarity is `value` and the union has `size` shingles.

        Raises ParameterError for a `value` outside 0 to 1 and a `size` below 1.
        """
        check_estimated(value, size)
        return float(np.sqrt(max(self._variance(float(value), size), 0.0)))

    def _of_pairs(
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
        with ops.here():
            rows, there = checked_pairs(pairs, len(samples), ops), samples.moved(ops.asarray)
            return of_pairs(rows, lambda some: _ratio(*shares(there, some, ops)))

    def _sample(self, fingerprints: Fingerprints, ops: Backend) -> Samples:
        multiplier, addend = stream(self.stream, self.seed, 2)
        permuted = mixed(fingerprints.values * (multiplier | np.uint64(1)) + addend)
        return self._sampled(ops.unique(Fingerprints(permuted, fingerprints.offset)))


def _ratio(part: Array, whole: Array) -> Array:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
