"""Signs documents, batch after batch: band digests for candidates, and the 128-bit hash of their tokens for copies.

`sign_by_method` makes the digests by the method's sketch, or by SimHash (one for each table of a Hamming search).
`sign_sets` keeps all fingerprints instead, for containment: there no sketch finds the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from gpulsh.arrays import Array, Fingerprints, SignedBatch, TextBatch
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.parts import run_in_fitting_parts
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, Backend
from gpulsh.io.rows import normalized
from gpulsh.lsh.hamming_tables import designs, key_digests
from gpulsh.method import Method
from gpulsh.params import BandShape, Family, NearBits, Shingling
from gpulsh.ragged import total_size
from gpulsh.secret import EvidenceKeys
from gpulsh.sketch.simhash import word_keys
from gpulsh.stats.stages import Funnel, Progress, with_progress

Result = TypeVar("Result")
Sign = Callable[[TextBatch, Method, EvidenceKeys, Backend], Result]

SMALLEST_SIGNATURE = Family(num_perm=1), BandShape(bands=1, rows=1)  # where only exact hashes are used


def sign_batches(
    batches: Iterable[TextBatch],
    method: Method,
    keys: EvidenceKeys,
    ops: Backend,
    funnel: Funnel,
    progress: Progress,
    by: Sign[Result],
) -> Iterator[Result]:
    """`by` of each batch, with exact hashes under `keys`; adds the bytes to `funnel` and `progress`."""

    def prepare(batch: TextBatch) -> TextBatch:
        funnel.bytes += total_size(batch)
        return normalized(batch, method.folding.form)

    with ops.use_device():
        ready = with_progress(batches, progress, prepare)
        yield from map_batches(ops, ready, lambda lane, batch: by(batch, method, keys, lane))


def sign_by_method(batch: TextBatch, method: Method, keys: EvidenceKeys, ops: Backend) -> SignedBatch:
    """One batch, signed by the sketch of the method."""
    if method.near is not None:
        return words_and_digests(batch, method.backend_shingling, method.near, keys, ops)[1]
    return ops.sign(batch, method.backend_shingling, method.family, method.banding, keys)


def words_and_digests(
    text: TextBatch, shingling: Shingling, near: NearBits, keys: EvidenceKeys, ops: Backend
) -> tuple[Array, SignedBatch]:
    """SimHash's bits, uint64 [n, bits / 64], and Signed: digests uint64 [n, tables], equal where the keys' bits are."""
    signed = ops.sign(text, shingling, *SMALLEST_SIGNATURE, keys)
    words = ops.text_simhash(text, shingling, word_keys(near.bits, near.seed), near.weights == "set")
    columns = []
    for key in designs(near.bits, near.distance)[near.tables].keys:
        digests = key_digests(words, key)
        digests[digests == np.uint64(NO_DIGEST)] = np.uint64(INSTEAD_OF_NO_DIGEST)
        digests[signed.shingles == 0] = np.uint64(NO_DIGEST)
        columns.append(digests)
    return words, SignedBatch(np.stack(columns, axis=1), signed.exact, signed.shingles)


def sign_sets(
    batch: TextBatch, method: Method, keys: EvidenceKeys, ops: Backend
) -> tuple[SignedBatch, Sequence[Fingerprints]]:
    """One batch: exact hashes without digests, and public unique fingerprints in NumPy arrays, in ranges if many."""
    least = ops.sign(batch, method.backend_shingling, *SMALLEST_SIGNATURE, keys)
    size, whole = total_size(batch), ops.sizes().whole

    def sets(parts: int) -> list[Fingerprints]:
        if parts <= 1:
            return [ops.shingle_sets(batch, method.backend_shingling).moved(ops.asnumpy)]
        return [
            ops.shingle_part(batch, method.backend_shingling, part, parts).moved(ops.asnumpy) for part in range(parts)
        ]

    found, _ = run_in_fitting_parts(sets, -(-size // whole) if whole else 1)
    return SignedBatch(least.digests[:, :0], least.exact, least.shingles), found
