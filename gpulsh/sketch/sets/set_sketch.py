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

    _inner = ("functions",)

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

        Fingerprints are taken for random numbers, as those of `gpulsh.shingle` and `gpulsh.fingerprint` are. Raises
        ParameterError where it is given anything else, or numbers that cannot be random in the half that the sketch
        reads: where of the first 1,024 values half have the upper, or lower, 32 bits of another. Of random ones fewer
        than one call in 10^14 is refused. A single value is known by 16 bits alone: 7 is refused, and 70,000 is not.
        """
        check_type("fingerprints", fingerprints, Fingerprints)
        check_mixed(fingerprints, self.functions)
        ops = select_backend(backend, threads=threads)
        return Signatures(sketched(ops, fingerprints.moved(ops.asarray), self.functions), maker=self)

    def _of_documents(self, documents: Documents) -> Signatures:
        ops = documents.ops
        signatures = ops.asarray(np.empty((len(documents.source), self.num_perm), self.functions.value_type))
        start = 0
        for batch in documents.batches():
            signatures[start : start + len(batch)] = ops.text_signatures(batch, documents.shingling, self.functions)
            start += len(batch)
        return Signatures(signatures, maker=self)
