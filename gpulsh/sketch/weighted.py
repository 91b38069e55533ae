"""Sketches of weighted sets and of non-negative vectors.

`gpulsh.WeightedMinHash` throws darts (Christiani 2020): a few hashes per weight and about num_perm * ln(num_perm) darts
per row. Consistent weighted sampling (Ioffe 2010) estimates the same, but needs num_perm logarithms per weight. The
logarithms of libraries differ in their last bits; darts are compared as integers. `gpulsh.KleinbergTardos` is the
rounding of Kleinberg and Tardos, as a sketch.

Vectors of any library, dense or sparse, become rows here: dense ones, or numbers above 0 as weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signatures, WeightedFingerprints, checked_array, dtype_of
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_choice, check_type
from gpulsh.errors import ParameterError
from gpulsh.params import Folding, Shingling
from gpulsh.ragged import offsets
from gpulsh.sketch.base import SignatureSketch
from gpulsh.text.documents import Documents, Weights, weigh


@dataclass(frozen=True, kw_only=True)
class WeightedMinHash(SignatureSketch):
    """Signatures of weighted sets: two values agree with the probability sum(min) / sum(max) of their weights.

    Values are independent of one another. Parts of a weight below a 2^24th of it, or below 2^-1022, do not count;
    otherwise the weights count as given, at any scale. Sets whose weights are counts estimate the Jaccard similarity of
    labelled shingles, where each occurrence is an element of its own.
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

        Numbers are dense, of any array library, or sparse (CSR of SciPy or CuPy); columns are elements. All ones
        where a row is empty or zero. Raises ParameterError if a number is negative or not finite.
        """
        ops = select_backend(backend, threads=threads)
        if isinstance(rows, (Fingerprints, Signatures)):
            check_type("rows", rows, WeightedFingerprints)
        with ops.use_device():
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
        """`self(weigh(texts, weights))`, with the counts of one batch of texts in memory; "idf" needs all of them.

        `texts` is any kind that `deduplicate` takes. Raises InputTypeError if a row is not a text.
        """
        check_choice("weights", weights, get_args(Weights))
        if weights == "idf":
            weighted = weigh(texts, weights, shingling=shingling, folding=folding, backend=backend, threads=threads)
            return self(weighted, backend=backend, threads=threads)
        documents = Documents.open(texts, shingling, folding, backend, threads)
        ops = documents.ops
        counted = map(ops.occurrences, documents.fingerprints())
        parts = [ops.weighted_minhash(rows, self.num_perm, self.seed) for rows in counted]
        with ops.use_device():
            return Signatures(np.concatenate(parts), maker=self)


@dataclass(frozen=True, kw_only=True)
class KleinbergTardos(SignatureSketch):
    """Signatures of vectors: each value draws pairs of column and height until the height is below the number there.

    Two vectors share the first such pair with probability sum(min) / sum(max) of their numbers, scaled as given. For
    distributions p and q that is (1 - d) / (1 + d), where d is their total variation distance. Heights have no
    bound: each vector takes, from one sequence, the pairs up to the power of two beyond its greatest number. So vectors
    of different scales can be compared. Numbers of at most 2^-32 times the vector's greatest do not count. A vector
    whose greatest number is below 2^-990 counts as zero; multiply all vectors by one number if they are that small. A
    value takes about d * max / sum draws of a vector; where most numbers are 0, `gpulsh.WeightedMinHash` estimates the
    same in less time.
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

        A sparse matrix becomes dense. Raises ParameterError if a number is negative or not finite.
        """
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            return Signatures(ops.kleinberg_tardos(dense_rows(vectors, ops), self.num_perm, self.seed), maker=self)


def dense_vectors(vectors: object, ops: Backend, name: str = "vectors") -> Array:
    """Real numbers [n, d] in the backend's memory, from any library's array or nested lists, or a ParameterError."""
    wanted = "numbers of shape [n, d], a vector a row"
    array = checked_array(name, vectors, wanted)
    check_real(array, name)
    if array.ndim != 2:
        raise ParameterError(f"{name} has shape {tuple(array.shape)}; give {wanted}")
    return ops.asarray(array)


def check_real(vectors: Any, name: str = "vectors") -> None:
    """Raise ParameterError unless an array, or a sparse matrix, has real numbers."""
    kind = dtype_of(vectors)
    if kind is None or kind.kind not in "biuf":
        given = getattr(vectors, "dtype", type(vectors).__name__)
        raise ParameterError(f"{name} is an array of {given}; give real numbers")


def dense_rows(vectors: object, ops: Backend, name: str = "vectors") -> Array:
    """Non-negative float64 [n, d], as `dense_vectors` takes them, or from a sparse matrix; or a ParameterError."""
    dense = vectors.toarray() if hasattr(vectors, "toarray") else vectors
    return _weights(dense_vectors(dense, ops, name), name)


def weighted_rows(vectors: object, ops: Backend) -> WeightedFingerprints:
    """The numbers above 0 of dense or sparse (CSR) vectors, by column; or a ParameterError."""
    if hasattr(vectors, "tocsr"):
        return _sparse(vectors, ops)
    rows = dense_rows(vectors, ops)
    count, columns = rows.shape
    flat = rows.reshape(-1)
    places = np.flatnonzero(flat > 0)
    ends = ops.asarray(np.arange(count + 1) * columns)
    return WeightedFingerprints(
        (places % max(columns, 1)).astype(np.uint64), flat[places], np.searchsorted(places, ends).astype(np.int64)
    )


def _sparse(vectors: Any, ops: Backend) -> WeightedFingerprints:
    matrix = vectors.tocsr().copy()  # of SciPy or CuPy
    matrix.sum_duplicates()  # this also sorts the columns of a row
    check_real(matrix)
    weight = _weights(ops.asarray(matrix.data))
    kept = weight > 0
    offset = offsets(kept)[ops.asarray(matrix.indptr).astype(np.int64)]
    return WeightedFingerprints(ops.asarray(matrix.indices).astype(np.uint64)[kept], weight[kept], offset)


def _weights(array: Array, name: str = "vectors") -> Array:
    numbers = array.astype(np.float64) + 0.0  # makes -0 into 0
    if not bool(((numbers >= 0) & (numbers < np.inf)).all()):
        raise ParameterError(f"{name} holds numbers below 0, infinite or NaN; give finite ones from 0 on")
    return numbers
