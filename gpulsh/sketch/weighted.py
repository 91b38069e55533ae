"""`gpulsh.WeightedMinHash`: MinHash of sets whose elements have weights.

It throws darts (Christiani 2020), which costs a few hash functions a weight and about num_perm * ln(num_perm) darts a
row. Consistent weighted sampling (Ioffe 2010) estimates the same and needs num_perm logarithms a weight, and those of
libraries differ in their last bits; darts are compared as integers.


`gpulsh.KleinbergTardos`: the rounding of Kleinberg and Tardos, as a sketch of non-negative vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signatures, WeightedFingerprints
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.params import Folding, Shingling, check_choice, check_type
from gpulsh.sketch.base import SignatureSketch
from gpulsh.sketch.vectors import dense_rows, weighted_rows
from gpulsh.text.documents import Documents, Weights, weigh


@dataclass(frozen=True, kw_only=True)
class WeightedMinHash(SignatureSketch):
    """Signatures of weighted sets: two values agree with the probability sum(min) / sum(max) of their weights.

    Values are independent of one another. What a weight has below a 2^24th of it, and below 2^-1022, is not counted;
    otherwise the probability is that of the weights as given, whatever their scale. A set in which all weights are
    counts estimates the Jaccard similarity of labelled shingles, each occurrence an element of its own.
    Sources: Charikar 2002, *Similarity estimation techniques from rounding algorithms*, section 3; Ioffe 2010,
    *Improved consistent sampling, weighted minhash and L1 sketching*; Christiani 2020, *DartMinHash: fast sketching for
    weighted sets*. Raises ParameterError for `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> sketch = WeightedMinHash(num_perm=256)
    >>> signatures = sketch([[1, 2, 0], [2, 4, 0], [0, 0, 0]], backend="cpu")
    >>> bool(abs(sketch.estimate(signatures, [[0, 1]], backend="cpu")[0] - 0.5) < 0.1)
    True
    """

    def __call__(
        self, rows: WeightedFingerprints | Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Signatures uint32 [n, num_perm] of WeightedFingerprints, or of non-negative numbers [n, d].

        The latter dense, of any array library, or sparse (CSR of SciPy or CuPy), columns being the elements. All ones
        where a row is empty or zero. ParameterError where a number is negative or not finite.
        """
        ops = select_backend(backend, threads=threads)
        if isinstance(rows, (Fingerprints, Signatures)):
            check_type("rows", rows, WeightedFingerprints)
        with ops.here():
            weighted = rows.moved(ops.asarray) if isinstance(rows, WeightedFingerprints) else weighted_rows(rows, ops)
            return Signatures(ops.weighted_minhash(weighted, self.num_perm, self.seed), maker=self)

    def from_texts(
        self,
        texts: object,
        weights: Weights = "count",
        *,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        backend: BackendName = "auto",
        threads: int | None = None,
    ) -> Signatures:
        """`self(weigh(texts, weights))`; counts are held of a batch of the texts at a time, "idf" needs all of them.

        `texts` is any kind that `deduplicate` takes. Raises InputTypeError where a row is no text.
        """
        check_choice("weights", weights, get_args(Weights))
        if weights == "idf":
            weighted = weigh(texts, weights, shingling=shingling, folding=folding, backend=backend, threads=threads)
            return self(weighted, backend=backend, threads=threads)
        documents = Documents.opened(texts, shingling, folding, backend, threads)
        ops = documents.ops
        counted = map(ops.occurrences, documents.fingerprints())
        parts = [ops.weighted_minhash(rows, self.num_perm, self.seed) for rows in counted]
        with ops.here():
            return Signatures(np.concatenate(parts), maker=self)


@dataclass(frozen=True, kw_only=True)
class KleinbergTardos(SignatureSketch):
    """Signatures of vectors: pairs of a column and a height are drawn until a height is below the number there.

    The first such pair is a value of the signature, and two vectors have it in common with the probability
    sum(min) / sum(max) of their numbers, scaled as given: for distributions p and q that is (1 - d) / (1 + d), d their
    distance of total variation. Heights have no bound: each vector sees, of one sequence, the pairs that are not above
    the power of two beyond its greatest number, so that vectors of unlike scales can be compared. Of numbers a 2^32nd
    of the vector's greatest one and less, nothing is seen, and a vector whose greatest number is below 2^-990 counts as
    zero: multiply all vectors by one number where they are as small. A value takes about d * max / sum draws of a
    vector; where most numbers are 0, `gpulsh.WeightedMinHash` estimates the same in less time.
    Sources: Kleinberg, Tardos 2002, *Approximation algorithms for classification problems with pairwise relationships*;
    Charikar 2002, *Similarity estimation techniques from rounding algorithms*, section 3.
    Raises ParameterError for `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> sketch = KleinbergTardos(num_perm=256)
    >>> signatures = sketch([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.0, 0.0]], backend="cpu")
    >>> bool(abs(sketch.estimate(signatures, [[0, 1]], backend="cpu")[0] - 0.6) < 0.1)
    True
    """

    def __call__(self, vectors: Array, *, backend: BackendName = "auto", threads: int | None = None) -> Signatures:
        """Signatures uint32 [n, num_perm] of non-negative numbers [n, d]; all ones where a row is below 2^-990.

        A sparse matrix is made dense. ParameterError where a number is negative or not finite.
        """
        ops = select_backend(backend, threads=threads)
        with ops.here():
            return Signatures(ops.kleinberg_tardos(dense_rows(vectors, ops), self.num_perm, self.seed), maker=self)
