"""`gpulsh.OnePermutation`: one hash function, whose range is cut into bins, in place of as many functions as bins."""

from __future__ import annotations

from dataclasses import dataclass

from gpulsh.params import Family
from gpulsh.sketch.sets.set_sketch import SetSketch


@dataclass(frozen=True, kw_only=True)
class OnePermutation(SetSketch):
    """Signatures of the least value in each of `num_perm` bins, empty bins filled from others.

    A shingle costs the same however long the signature is; a document with fewer shingles than bins costs about
    num_perm^2 / shingles probes. Source: Li, Owen, Zhang 2012, *One permutation hashing*; Shrivastava 2017, *Optimal
    densification for fast and accurate minwise hashing*.
    Raises ParameterError for `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> from gpulsh.text.shingling import shingle
    >>> sketch = OnePermutation(num_perm=256)
    >>> signatures = sketch(shingle(["a b c d e f g h", "A b, c d e: f g h!"]), backend="cpu")
    >>> sketch.estimate(signatures, [[0, 1]], backend="cpu")
    array([1.])
    """

    @property
    def functions(self) -> Family:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        return Family(name="one_permutation", num_perm=self.num_perm, seed=self.seed)

    def _variance(self, value: float, size: int | None) -> float:
        """Over bins that hold a shingle of the union, m on average: two different ones agree as two shingles drawn
        without replacement do; a filled bin has the value of each of the m with the same chance.
        """
        k = self.num_perm
        if size is None:
            return value * (1 - value) / k
        m = k * (1 - (1 - 1 / k) ** size)
        both = value * max(value * size - 1, 0.0) / (size - 1) if size > 1 else value
        shared = value / m + (1 - 1 / m) * both  # both values agree, of two bins of which one or both are filled
        rest = k - m
        square = (k * value + m * (m - 1) * both + rest * (2 * m + rest - 1) * shared) / k**2
        return max(square - value**2, 0.0)
