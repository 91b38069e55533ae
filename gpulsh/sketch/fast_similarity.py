"""`gpulsh.FastSimilarity`: a few hash functions a fingerprint, and no bin that stays empty."""

from __future__ import annotations

from dataclasses import dataclass

from gpulsh.backends.protocol import THROWS
from gpulsh.params import Family
from gpulsh.sketch.base import SetSketch


@dataclass(frozen=True, kw_only=True)
class FastSimilarity(SetSketch):
    """Signatures of the first and least fingerprint thrown into each of `num_perm` bins, in rounds over the whole set.

    A set of more fingerprints than a few times `num_perm` takes one or two rounds. Fingerprints of one round are drawn
    without replacement, so that the estimate deviates less than MinHash's where sets are not much larger than
    signatures. Here the sketch departs from the paper: that has as many rounds as bins, and then a round for each bin
    alone. Here are seven rounds, and a bin that is still empty takes the minimum of a function of its own, as MinHash
    does. The estimate is unbiased all the same; but where a set has fewer fingerprints than about num_perm *
    ln(num_perm) / 7, the paper's bounds on its error hold for the filled bins alone, and the others err independently.
    Source: Dahlgaard, Knudsen, Thorup 2017, *Fast similarity sketching*.
    Raises ParameterError for `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> from gpulsh.text.documents import shingle
    >>> sketch = FastSimilarity(num_perm=256)
    >>> signatures = sketch(shingle(["a b c d e f g h", "A b, c d e: f g h!"]), backend="cpu")
    >>> sketch.estimate(signatures, [[0, 1]], backend="cpu")
    array([1.])
    """

    @property
    def functions(self) -> Family:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        return Family(name="fast_similarity", num_perm=self.num_perm, seed=self.seed)

    def _variance(self, value: float, size: int | None) -> float:
        """Two bins filled in one round hold two elements of the union, drawn without replacement; otherwise two drawn
        with it.
        """
        k = self.num_perm
        if size is None or k == 1:
            return value * (1 - value) / k
        one, two = (1 - 1 / k) ** size, (1 - 2 / k) ** size  # that a round leaves one bin, both bins, empty
        together = (1 - 2 * one + two) * (1 - two**THROWS) / (1 - two)
        apart = (1 - together) / size  # that two bins hold the same element
        different = value * max(value * size - 1, 0.0) / (size - 1) if size > 1 else value
        both = apart * value + (1 - apart) * different
        return max(value / k + (1 - 1 / k) * both - value**2, 0.0)
