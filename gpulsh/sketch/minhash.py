"""`gpulsh.MinHash`: signatures whose values agree between two documents with probability their Jaccard similarity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Fingerprints, Signatures
from gpulsh.backends.protocol import sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.io.memory.texts import open_texts
from gpulsh.params import Family, FamilyName, Folding, Shingling, check_type, checked_text_parameters
from gpulsh.text.shingling import folded_batches

BATCH_BYTES = 32 << 20  # text handed to the backend at once


@dataclass(frozen=True, kw_only=True)
class MinHash:
    """Signatures of `num_perm` minima over a family of hash functions drawn from `seed`.

    Source: Broder 1997; the family `affine32` is h(x) = a x + b mod 2^32 on the upper half of a fingerprint.

    >>> from gpulsh.text.shingling import shingle
    >>> signatures = MinHash(num_perm=128, seed=1)(shingle(["a text", "A  text!"]), backend="cpu")
    >>> signatures.shape, bool((signatures[0] == signatures[1]).all())
    ((2, 128), True)
    """

    num_perm: int = 128
    seed: int = 1
    family: FamilyName = "affine32"

    def __post_init__(self) -> None:
        self._functions()

    def __call__(
        self, fingerprints: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Signatures, uint32 [n, num_perm], of Fingerprints of n rows; all ones where the document is empty."""
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        return Signatures(sketched(ops, fingerprints.moved(ops.asarray), self._functions()))

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
        ops, family = select_backend(backend, threads=threads), self._functions()
        source = open_texts(texts, ops)
        signatures = ops.asarray(np.empty((len(source), self.num_perm), np.uint32))
        start = 0
        for batch in folded_batches(source, folding, BATCH_BYTES):
            signatures[start : start + len(batch)] = ops.text_signatures(batch, shingling, family)
            start += len(batch)
        return Signatures(signatures)

    def _functions(self) -> Family:
        return Family(name=self.family, num_perm=self.num_perm, seed=self.seed)
