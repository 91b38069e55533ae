"""Sketches of sets: signature values of two documents agree with a probability equal to their Jaccard similarity.

`gpulsh.MinHash` uses one hash function per value, and `gpulsh.CMinHash` two permutations for all values.
`gpulsh.FastSimilarity` hashes each fingerprint a few times, and `gpulsh.OnePermutation` once. `gpulsh.minima` makes
signatures from given permutations or hash functions, as textbooks do by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpulsh.arrays import Array, Fingerprints, Signatures, checked_array
from gpulsh.backends.protocol import NO_VALUE, THROWS, Backend, sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_choice, check_type
from gpulsh.errors import ParameterError
from gpulsh.params import Family, MinHashFamily
from gpulsh.sketch.base import SetSketch
from gpulsh.text.sets import numbered_sets

AT_ONCE = 256  # elements signed together
MANY = 200  # elements; beyond, the mean no longer changes


@dataclass(frozen=True, kw_only=True)
class MinHash(SetSketch):
    """Signatures of `num_perm` minima over a family of hash functions drawn from `seed`.

    ================  ======================================================  =====================================
    family            h(x), x a fingerprint, y its upper half
    ================  ======================================================  =====================================
    `affine32`        a y + b mod 2^32, a odd                                 the default; fastest; errs as in theory
    `affine61`        a x + b mod 2^61 - 1, a not 0; signatures are uint64    2-independent below 2^61 - 1
    `multiply_shift`  the upper half of a x + b mod 2^64, a odd               Dietzfelbinger 1996
    `xor`             y, then y ^ mask                                        for study: errs more than in theory
    `tabulation`      the exclusive-or of a table's entries for y's bytes     Zobrist 1970; Patrascu, Thorup 2012
    ================  ======================================================  =====================================

    `affine61` cannot distinguish fingerprints that differ by a multiple of 2^61 - 1. Two random ones do with a
    probability of 2^-61.

    Masks keep a set's binary trie. So under `xor`, an element is the minimum with probability 2^-(branchings on its way
    from the root), not 1 / |set|. The estimate of two given sets converges to a number other than their
    similarity, and their bands agree as often as the `SCurve` says for that number. Over random sets, the estimate is
    unbiased. `.standard_deviation(value, size)` includes the variance of that number; longer signatures do not reduce
    it.

    For random numbers, such as fingerprints, no other family errs beyond chance. For numbers in arithmetic progression,
    `affine32`, `affine61` and `multiply_shift` do, and `tabulation` hardly does (the record `families.md` in
    `benchmarks/record`). `.epsilon(sets)` measures the error for your own sets. Source: Broder, Charikar, Frieze,
    Mitzenmacher 2000, *Min-wise independent permutations*, with one minimum of each function. Broder 1997, *On the
    resemblance and containment of documents*, uses one permutation, as `BottomS` does. Raises ParameterError for
    another `family`, `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> from gpulsh.text.documents import shingle
    >>> signatures = MinHash(num_perm=128, seed=1)(shingle(["a text", "A  text!"]), backend="cpu")
    >>> signatures.shape, bool((signatures[0] == signatures[1]).all())
    ((2, 128), True)

    `gpulsh.fingerprint` takes sets that are not text:

    >>> from gpulsh.text.sets import fingerprint
    >>> baskets = fingerprint([range(80), range(20, 100), range(100, 180)], backend="cpu")
    >>> sketch = MinHash(num_perm=1024)
    >>> sketch.estimate(sketch(baskets, backend="cpu"), [[0, 1], [0, 2]], backend="cpu").round(1)
    array([0.6, 0. ])
    """

    kind = "affine32"

    family: MinHashFamily = "affine32"

    @property
    def functions(self) -> Family:
        """The functions that backends compute signatures by. Raises ParameterError for a wrong parameter."""
        check_choice("family", self.family, get_args(MinHashFamily))
        return Family(name=self.family, num_perm=self.num_perm, seed=self.seed)

    def epsilon(
        self, sets: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> NDArray[np.float64]:
        """The distance of the drawn functions from min-wise independence on each set, float64 [n]; 0 for an empty set.

        In a min-wise independent family each element x of a set X is the minimum under a share 1 / |X| of the
        functions. The distance is the greatest relative error of that share over X. A finite number of functions errs
        by chance, too, by `gpulsh.theory.epsilon_of_chance(size, functions)`. Takes any numbers as they are. Source:
        Broder, Charikar, Frieze, Mitzenmacher 2000, *Min-wise independent permutations*, section 1.

        >>> rows = Fingerprints(np.array([0, 1, 2], np.uint64) << np.uint64(32), np.array([0, 3]))
        >>> MinHash(num_perm=65536, family="xor").epsilon(rows, backend="cpu").round(
        ...     1
        ... )  # 2 is the least of half
        array([0.5])
        """
        check_type("sets", sets, Fingerprints)
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            rows = ops.unique(sets.moved(ops.asarray))
            values, offset = rows.values, ops.asnumpy(rows.offset)
            bounds = zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True)
            return np.array([self._epsilon(values[start:stop], ops) for start, stop in bounds], np.float64)

    def _epsilon(self, elements: Array, ops: Backend) -> float:
        """The distance for one set, whose elements are signed as sets of one."""
        winners, least = np.zeros(self.num_perm, np.int64), None
        for start in range(0, len(elements), AT_ONCE):
            some = elements[start : start + AT_ONCE]
            alone = Fingerprints(some, ops.asarray(np.arange(len(some) + 1)))
            found = ops.asnumpy(sketched(ops, alone, self.functions))
            best = found.min(axis=0)
            better = np.ones(self.num_perm, bool) if least is None else best < least
            winners[better] = found.argmin(axis=0)[better] + start
            least = best if least is None else np.minimum(least, best)
        shares = np.bincount(winners, minlength=len(elements)) / self.num_perm
        return float(abs(shares * len(elements) - 1).max(initial=0)) if len(elements) else 0.0

    def _variance(self, value: float, size: int | None) -> float:
        """Under `xor` also the variance, over random sets, of the number that the share tends to."""
        independent = value * (1 - value) / self.num_perm
        if self.family != "xor" or size in (None, 1):
            return independent
        assert size is not None
        varies = value * (1 - value) * (_concentration(size) - 1) / (size - 1)
        return varies + (value * (1 - value) - varies) / self.num_perm


@cache
def _concentration(size: int) -> float:
    """n times the mean sum of the squared chances of n random elements under random masks.

    With k and n - k elements below the first branching, each chance is half of the chance below. Beyond MANY elements
    the mean no longer changes.
    """
    found = [0.0, 1.0]
    for n in range(2, min(size, MANY) + 1):
        sides = sum(comb(n, k) / (2**n - 2) * found[k] for k in range(1, n))
        found.append(sides / 2)
    return found[-1] * min(size, MANY)


@dataclass(frozen=True, kw_only=True)
class CMinHash(SetSketch):
    """Signatures of `num_perm` minima under one permutation, circularly shifted by one more place for each.

    Another permutation first breaks any order of the set. The sketch draws three random words for any `num_perm`.
    With 2^32 places, its variance is lower than MinHash's by too little to measure. Source: Li, Li 2022, *C-MinHash:
    Improving Minwise Hashing with Circulant Permutation* (the variant of two permutations, sigma and pi).
    Raises ParameterError for `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> from gpulsh.text.documents import shingle
    >>> sketch = CMinHash(num_perm=256)
    >>> signatures = sketch(shingle(["a b c d e f g h", "A b, c d e: f g h!"]), backend="cpu")
    >>> sketch.estimate(signatures, [[0, 1]], backend="cpu")
    array([1.])
    """

    kind = "c_minhash"


@dataclass(frozen=True, kw_only=True)
class FastSimilarity(SetSketch):
    """Signatures of the first and least fingerprint thrown into each of `num_perm` bins, in rounds over the whole set.

    A set with a few times `num_perm` fingerprints takes one or two rounds. A round draws its fingerprints without
    replacement, so the estimate deviates less than MinHash's where sets are not much larger than signatures. The paper
    has as many rounds as bins, and then a round for each bin alone. Here there are seven rounds, and a bin that is
    still empty takes the minimum of its own function, as in MinHash. The estimate remains unbiased. If a set has fewer
    than about num_perm * ln(num_perm) / 7 fingerprints, the paper's bounds hold only for the filled bins, and the
    others err independently.
    Source: Dahlgaard, Knudsen, Thorup 2017, *Fast similarity sketching*.
    Raises ParameterError for `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> from gpulsh.text.documents import shingle
    >>> sketch = FastSimilarity(num_perm=256)
    >>> signatures = sketch(shingle(["a b c d e f g h", "A b, c d e: f g h!"]), backend="cpu")
    >>> sketch.estimate(signatures, [[0, 1]], backend="cpu")
    array([1.])
    """

    kind = "fast_similarity"

    def _variance(self, value: float, size: int | None) -> float:
        """Two bins filled in one round hold elements of the union drawn without replacement; others, with it."""
        k = self.num_perm
        if size is None or k == 1:
            return value * (1 - value) / k
        one, two = (1 - 1 / k) ** size, (1 - 2 / k) ** size  # chances that a round leaves one bin, or both bins, empty
        together = (1 - 2 * one + two) * (1 - two**THROWS) / (1 - two)
        apart = (1 - together) / size  # the chance that two bins hold the same element
        different = value * max(value * size - 1, 0.0) / (size - 1) if size > 1 else value
        both = apart * value + (1 - apart) * different
        return max(value / k + (1 - 1 / k) * both - value**2, 0.0)


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


def minima(
    sets: object, functions: ArrayLike, *, backend: BackendName = "auto", threads: int | None = None
) -> Signatures:
    """Signatures of sets from given functions: the minimum of each function over each set.

    `functions` are integers [elements, num_perm] from 0 to 2^32 - 2. Column i holds the value of function i at each
    element; for a permutation, the element's place. `sets` has the numbers of elements, from 0 on, as
    `gpulsh.fingerprint` takes them. Returns Signatures uint32 [n, num_perm] for `Banding` and `gpulsh.jaccard`, all
    ones where a set is empty. Raises ParameterError for other functions and elements, InputTypeError for other sets.
    Source: Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.3.

    >>> x = np.arange(5)
    >>> functions = np.stack([(x + 1) % 5, (2 * x + 3) % 5], axis=1)
    >>> minima([[0, 2, 3], [1, 2, 4]], functions, backend="cpu").values.tolist()
    [[1, 2], [0, 0]]
    """
    ops = select_backend(backend, threads=threads)
    wanted = "integers of shape [elements, num_perm]"
    table = np.asarray(checked_array("functions", functions, wanted))
    if table.ndim != 2 or table.dtype.kind not in "iu" or not table.shape[1]:
        raise ParameterError(f"functions is an array of {table.dtype} with shape {table.shape}; give {wanted}")
    if table.size and not 0 <= int(table.min()) <= int(table.max()) < NO_VALUE:
        raise ParameterError(
            f"functions holds values from {table.min()} to {table.max()}; give values from 0 to {NO_VALUE - 1}"
        )
    table = table.astype(np.uint32)
    rows = numbered_sets(sets, len(table))
    empty = np.full(table.shape[1], NO_VALUE, np.uint32)
    found = np.array([table[row].min(axis=0) if len(row) else empty for row in rows], np.uint32)
    return Signatures(ops.asarray(found.reshape(len(rows), table.shape[1])))
