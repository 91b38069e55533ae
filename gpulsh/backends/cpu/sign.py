"""What `sign` and `text_signatures` make of a chunk while it is in the cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch, Values
from gpulsh.backends.cpu.giants import giant_pieces, is_giant, one_row
from gpulsh.backends.cpu.shingle import shingle_rows
from gpulsh.backends.cpu.sketches.minima import Minima
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys


class SignedRows(NamedTuple):
    """Some documents of a batch."""

    shingles: NDArray[np.int64]  # [documents] how many each has
    exact: NDArray[np.uint64]  # [documents, 2] exact hashes under `proof`, [0, 2] without


def sign_rows(
    text: TextBatch,
    start: int,
    stop: int,
    shingling: Shingling,
    sketch: Minima,
    signatures: Values,
    *,
    proof: EvidenceKeys | None = None,
) -> SignedRows:
    """Sign documents [start, stop) into `signatures` [documents, num_perm].

    The pieces of a giant, which stands alone, are folded, so that its fingerprints are never together.
    """
    if not is_giant(text, start, stop):
        rows, exact = shingle_rows(text, start, stop, shingling, proof=proof)
        sketch.sign_into(rows, signatures)
        return SignedRows(rows.lengths, exact)
    exact = np.empty((1 if proof else 0, 2), np.uint64)
    state, shingles = sketch.empty(1), 0
    for values in giant_pieces(text, start, shingling, proof=proof, exact=exact[0] if proof else None):
        state = sketch.merge(state, sketch.fold(one_row(values)))
        shingles += len(values)
    signatures[:] = sketch.finish(state)
    return SignedRows(np.array([shingles]), exact)
