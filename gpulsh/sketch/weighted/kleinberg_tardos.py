"""`gpulsh.KleinbergTardos`: the rounding of Kleinberg and Tardos, as a sketch of non-negative vectors."""

from __future__ import annotations

from dataclasses import dataclass

from gpulsh.arrays import Array, Signatures
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.sketch.signature_sketch import SignatureSketch
from gpulsh.sketch.weighted.vectors import dense_rows


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
