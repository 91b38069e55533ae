"""`gpulsh.ModM`: what a modulus divides of a set, Broder's MOD_m, which knows containment, too."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log, log1p
from typing import ClassVar

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Samples
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.errors import ParameterError
from gpulsh.params import set_integer
from gpulsh.ragged import offsets
from gpulsh.sketch.samples.sample_sketch import SampleSketch


@dataclass(frozen=True, kw_only=True)
class ModM(SampleSketch):
    """The permuted fingerprints that `modulus` divides: of a set of n about n / modulus.

    With L for what is left of a set, the estimate of resemblance is |L(A) and L(B)| / |L(A) or L(B)|, that of
    containment |L(A) and L(B)| / |L(A)|. Where something is left to divide by, both are unbiased; else they are NaN,
    which the theorem does not speak of.
    Source: Broder 1997, *On the resemblance and containment of documents*, theorem 1, whose second and third estimates
    these are. Raises ParameterError for `modulus` outside 1 to 2^32.

    >>> from gpulsh.text.shingling import shingle
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
        """The estimate of |A and B| / |A| of each pair (A, B), float64 [m]; NaN where A has no sample.

        Raises as `estimate` does.
        """
        return self._of_pairs(self._contained, samples, pairs, backend, threads)

    def _sampled(self, permuted: Fingerprints) -> Samples:
        left = permuted.values % np.uint64(self.modulus) == 0
        return Samples(permuted.values[left], offsets(left)[permuted.offset])

    def _shared(self, samples: Samples, pairs: Array, ops: Backend) -> tuple[Array, Array]:
        return ops.intersect(pairs, Fingerprints(samples.values, samples.offset))

    def _contained(self, samples: Samples, pairs: Array, ops: Backend) -> tuple[Array, Array]:
        return self._shared(samples, pairs, ops)[0], samples.lengths[pairs[:, 0]]

    def _variance(self, value: float, size: int | None) -> float:
        """That of a sample without replacement of k of the union, k binomial and not 0."""
        if size is None:
            raise ParameterError("size is not given; give the number of shingles that either document has")
        if self.modulus == 1 or size == 1:
            return 0.0
        mean = size / self.modulus
        spread = 12 * np.sqrt(mean) + 12
        counts = range(max(1, int(mean - spread)), min(size, int(mean + spread)) + 1)
        chances = np.array([_binomial(k, size, 1 / self.modulus) for k in counts])
        k = np.array(counts)
        return float(value * (1 - value) * (chances * (size - k) / (k * (size - 1))).sum() / chances.sum())


def _binomial(k: int, n: int, p: float) -> float:
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log1p(-p))
