"""What every sketch of sets is to its user: signatures of fingerprints or texts, and what two of them tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Signatures
from gpulsh.backends.protocol import sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.io.memory.texts import open_texts
from gpulsh.params import Family, Folding, Shingling, check_type, checked_text_parameters
from gpulsh.sketch.agreement import checked_pairs, estimates
from gpulsh.text.shingling import folded_batches

BATCH_BYTES = 32 << 20  # text handed to the backend at once


@dataclass(frozen=True, kw_only=True)
class SetSketch:
    """Signatures of `num_perm` values; the share that two have in common estimates their Jaccard similarity."""

    num_perm: int = 128
    seed: int = 1

    def __post_init__(self) -> None:
        _ = self.functions

    @property
    def functions(self) -> Family:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        raise NotImplementedError

    def __call__(
        self, fingerprints: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Signatures [n, num_perm] of Fingerprints of n rows; all ones where the document is empty."""
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        return Signatures(sketched(ops, fingerprints.moved(ops.asarray), self.functions))

    def from_texts(
        self,
        texts: object,
        *,
        shingling: Shingling | None = None,
        folding: Folding | None = None,
        backend: BackendName = "auto",
        threads: int | None = None,
    ) -> Signatures:
        """`self(shingle(texts))` without ever holding the fingerprints of more than a batch of the texts."""
        shingling, folding = checked_text_parameters(shingling, folding)
        ops = select_backend(backend, threads=threads)
        source = open_texts(texts, ops)
        signatures = ops.asarray(np.empty((len(source), self.num_perm), self.functions.value_type))
        start = 0
        for batch in folded_batches(source, folding, BATCH_BYTES):
            signatures[start : start + len(batch)] = ops.text_signatures(batch, shingling, self.functions)
            start += len(batch)
        return Signatures(signatures)

    def estimate(
        self, signatures: Signatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """The estimate of Jaccard similarity of each pair of rows, float64 [m]; 0 where a document is empty."""
        check_type("signatures", signatures, Signatures)
        ops = select_backend(backend, threads=threads)
        rows = ops.asarray(checked_pairs(pairs, len(signatures), ops))
        return estimates(ops.asarray(signatures.values), rows)

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """What theory says of the estimate where the similarity is `value` and the union has `size` shingles.

        That of `num_perm` independent values, sqrt(J (1 - J) / num_perm), where `size` is None.
        """
        if not 0 <= value <= 1:
            raise ParameterError(f"value is {value}; give a similarity from 0 to 1")
        if size is not None and size < 1:
            raise ParameterError(f"size is {size}; give the number of shingles that either document has, at least 1")
        return float(np.sqrt(self._variance(float(value), size)))

    def _variance(self, value: float, size: int | None) -> float | NDArray[np.float64]:
        return value * (1 - value) / self.num_perm
