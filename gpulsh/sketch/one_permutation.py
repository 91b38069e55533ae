"""`gpulsh.OnePermutation`: one hash function, whose range is cut into `num_perm` bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.sketch.base import SetSketch


@dataclass(frozen=True, kw_only=True)
class OnePermutation(SetSketch):
    """Signatures of the least value in each of `num_perm` bins; empty bins take the value of another.

    A shingle costs the same for any length of the signature. A document with fewer shingles than bins costs about
    num_perm^2 / shingles probes, and a document with one shingle none.
    Source: Li, Owen, Zhang 2012, *One permutation hashing*; Shrivastava 2017, *Optimal densification for fast and
    accurate minwise hashing*.
    Raises ParameterError for `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> from gpulsh.text.documents import shingle
    >>> sketch = OnePermutation(num_perm=256)
    >>> signatures = sketch(shingle(["a b c d e f g h", "A b, c d e: f g h!"]), backend="cpu")
    >>> sketch.estimate(signatures, [[0, 1]], backend="cpu")
    array([1.])
    """

    kind = "one_permutation"

    def _variance(self, value: float, size: int | None) -> float:
        """M of the bins hold an element of the union, and their least elements are drawn without replacement.

        A bin that is empty in the union takes the value of one of the M, with equal chances and independently. So the
        variance given M is a sum of 1, M and 1 / M. The mean of 1 / M is the mean of (j / num_perm)^(size - 1) over j
        from 1 to num_perm, because the mean of x^M is the mean of (N / num_perm)^size for binomial N.
        """
        k = self.num_perm
        if size is None:
            return value * (1 - value) / k
        if size == 1:
            return 0.0
        filled = -k * np.expm1(size * np.log1p(-1 / k)) if k > 1 else 1.0
        inverse = float(np.mean((np.arange(1, k + 1) / k) ** (size - 1)))
        drawn, others = size * inverse - 1, size / k**2 * (k + 1 - filled - k * inverse)
        return max(value * (1 - value) / (size - 1) * (drawn + others), 0.0)
