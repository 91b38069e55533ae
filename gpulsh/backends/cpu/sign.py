"""What `sign` and `text_signatures` make of a chunk while it is in the cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu.giants import giant_pieces, is_giant
from gpulsh.backends.cpu.minhash import minhash_rows
from gpulsh.backends.cpu.shingle import shingle_rows
from gpulsh.backends.protocol import NO_VALUE
from gpulsh.params import Shingling
from gpulsh.permutations import Coefficients
from gpulsh.secret import EvidenceKeys


def sign_rows(
    text: TextBatch,
    start: int,
    stop: int,
    shingling: Shingling,
    coefficients: Coefficients,
    out: NDArray[np.uint32],
    *,
    proof: EvidenceKeys | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Signatures of documents [start, stop), or of one giant, into `out` [documents, num_perm].

    Their numbers of shingles [documents] and, under `proof`, exact hashes [documents, 2] (or [0, 2]). A giant's minima
    are those of its pieces, so that its fingerprints are never held together.
    """
    if not is_giant(text, start, stop):
        values, ends, exact = shingle_rows(text, start, stop, shingling, proof=proof)
        offset = np.concatenate([[0], ends])
        minhash_rows(values, offset, coefficients, out)
        return np.diff(offset), exact
    exact = np.empty((1 if proof else 0, 2), np.uint64)
    shingles = 0
    minima = np.empty_like(out)
    out[:] = NO_VALUE
    for values in giant_pieces(text, start, shingling, proof=proof, exact=exact[0] if proof else None):
        minhash_rows(values, np.array([0, len(values)]), coefficients, minima)
        np.minimum(out, minima, out=out)
        shingles += len(values)
    return np.array([shingles]), exact
