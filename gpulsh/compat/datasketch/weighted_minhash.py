"""`WeightedMinHash` of datasketch 2.0, and its generator."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.compat.datasketch.minhash import check_same
from gpulsh.compat.schemes.datasketch import DatasketchWeightedMinHash, draw_numbers
from gpulsh.errors import InputTypeError, ParameterError


class WeightedMinHash:
    """The samples of a vector: `hashvalues` int64 [num_perm, 2]."""

    def __init__(self, seed: int, hashvalues: NDArray[np.int64]) -> None:
        self.seed, self.hashvalues = seed, hashvalues

    def jaccard(self, other: WeightedMinHash) -> float:
        """The estimate of the weighted Jaccard similarity, sum(min) / sum(max)."""
        check_same("compare samples", seed=(self.seed, other.seed), length=(len(self), len(other)))
        return float((self.hashvalues == other.hashvalues).all(axis=1).mean())

    def digest(self) -> NDArray[np.int64]:
        """A copy of the samples."""
        return self.hashvalues.copy()

    def copy(self) -> WeightedMinHash:
        """A copy that changes by itself."""
        return WeightedMinHash(self.seed, self.digest())

    def __len__(self) -> int:
        return len(self.hashvalues)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, WeightedMinHash) and type(self) is type(other) and self.seed == other.seed
        return same and np.array_equal(self.hashvalues, other.hashvalues)  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


class WeightedMinHashGenerator:
    """Makes `WeightedMinHash` of vectors of `dim` numbers, `sample_size` samples each.

    >>> generator = WeightedMinHashGenerator(3, sample_size=64)
    >>> generator.minhash([1, 2, 0]).jaccard(generator.minhash([1, 2, 0]))
    1.0
    """

    def __init__(self, dim: int, sample_size: int = 128, seed: int = 1) -> None:
        self.dim, self.sample_size, self.seed = dim, sample_size, seed
        self.rs, self.ln_cs, self.betas = draw_numbers(dim, sample_size, seed)

    def minhash(self, v: Any) -> WeightedMinHash:
        """The samples of one vector; ParameterError if it has another length, or is zero."""
        if not isinstance(v, Sized):
            raise InputTypeError(f"v is of type {type(v).__name__}; give a vector of {self.dim} numbers")
        if len(v) != self.dim:
            raise ParameterError(f"v has {len(v)} numbers; give a vector of {self.dim}")
        made = self._sampled(np.array(v, np.float32)[None], many=False)[0]
        if made is None:
            raise ParameterError("v is all zeros; give a vector with a number above 0")
        return made

    def minhash_many(self, X: Any) -> list[WeightedMinHash | None]:
        """The samples of all rows of a matrix, None for a zero row. `minhash` of a row gives other samples."""
        if not isinstance(X, np.ndarray) and not hasattr(X, "tocsr"):
            raise InputTypeError(f"X is of type {type(X).__name__}; give a matrix of NumPy or SciPy")
        if X.ndim != 2 or X.shape[1] != self.dim:
            raise ParameterError(f"X has shape {X.shape}; give a matrix of shape [n, {self.dim}]")
        return self._sampled(X.astype(np.float32), many=True)

    def _sampled(self, vectors: Any, many: bool) -> list[WeightedMinHash | None]:
        sketch = DatasketchWeightedMinHash(dim=self.dim, num_perm=self.sample_size, seed=self.seed, many=many)
        samples = sketch(vectors, backend="cpu")
        return [None if row[0, 0] < 0 else WeightedMinHash(self.seed, row.copy()) for row in samples]
