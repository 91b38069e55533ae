"""What every sketch that makes signatures is to its user: their length, their seed, and what two of them tell."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Signatures
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.params import MAX_NUM_PERM, MAX_SEED, check_type, refuse_unknown, set_integer
from gpulsh.sketch.agreement import check_estimated, check_maker, checked_pairs, estimates


@dataclass(frozen=True, kw_only=True)
class SignatureSketch:
    """Signatures of `num_perm` values; the share that two have in common estimates their similarity."""

    num_perm: int = 128
    seed: int = 1

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Refuse a keyword that is no parameter."""
        refuse_unknown(cls.__name__, parameters, [field.name for field in fields(cls)])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        set_integer(self, "num_perm", 1, MAX_NUM_PERM)
        set_integer(self, "seed", 0, MAX_SEED)

    def estimate(
        self, signatures: Signatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """The estimate of the similarity of each pair of rows, float64 [m]; 0 where one is empty.

        Raises ParameterError where another sketch made the signatures, or `pairs` are no rows of them.
        """
        check_type("signatures", signatures, Signatures)
        check_maker("signatures", signatures, self)
        ops = select_backend(backend, threads=threads)
        rows = checked_pairs(pairs, len(signatures), ops)
        return estimates(ops.asarray(signatures.values), rows)

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """What theory says of the estimate where the similarity is `value` and the union has `size` shingles.

        That of `num_perm` independent values, sqrt(J (1 - J) / num_perm), where `size` is None. Raises ParameterError
        for a `value` outside 0 to 1 and a `size` below 1.
        """
        check_estimated(value, size)
        return float(np.sqrt(self._variance(float(value), size)))

    def _variance(self, value: float, size: int | None) -> float | NDArray[np.float64]:
        return value * (1 - value) / self.num_perm
