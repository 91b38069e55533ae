"""What every sketch of sets is to its user: signatures of fingerprints or texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Fingerprints, Signatures
from gpulsh.backends.protocol import sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.params import Family, check_type
from gpulsh.sketch.sets.unmixed import check_mixed
from gpulsh.sketch.signature_sketch import SignatureSketch
from gpulsh.sketch.text_sketch import TextSketch
from gpulsh.text.documents import Documents


@dataclass(frozen=True, kw_only=True)
class SetSketch(TextSketch[Signatures], SignatureSketch):
    """Signatures of sets; the share of values that two have in common estimates their Jaccard similarity."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.functions

    @property
    def functions(self) -> Family:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        raise NotImplementedError

    def __call__(
        self, fingerprints: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Signatures [n, num_perm] of Fingerprints of n rows; all ones where the document is empty.

        Fingerprints are taken for random numbers, as those of `gpulsh.shingle` and `gpulsh.fingerprint` are. Plain
        numbers are refused where the sketch reads a half of each: where the first 1,024 values have at most half as
        many distinct halves as distinct values. Two values are refused where both halves are 0. One value is refused
        if it is below 2^16, or a multiple of 2^48 where lower halves are read: 7 is refused, and 70,000 is not. Random
        values are refused in less than one call in 10^14. Raises ParameterError for these, and for any other object.
        """
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        there = fingerprints.moved(ops.asarray)
        with ops.here():
            check_mixed(there, self.functions, ops)
        return Signatures(sketched(ops, there, self.functions), maker=self)

    def _of_documents(self, documents: Documents) -> Signatures:
        ops = documents.ops
        signatures = ops.asarray(np.empty((len(documents.source), self.num_perm), self.functions.value_type))
        start = 0
        for batch in documents.batches():
            signatures[start : start + len(batch)] = ops.text_signatures(batch, documents.shingling, self.functions)
            start += len(batch)
        return Signatures(signatures, maker=self)
