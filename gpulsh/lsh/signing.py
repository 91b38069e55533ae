"""Signing by SimHash: of each document a digest for each table of a Hamming search, which its bits in the key make.

Signing by nothing less than the set: of each document all fingerprints, where no sketch finds what is asked for.

Signing: text to band digests and the 128-bit hash of its tokens, batch after batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signed, TextBatch
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.parts import in_fitting_parts
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, Backend
from gpulsh.io.normalize import normalized
from gpulsh.lsh.hamming_tables import designs, key_digests
from gpulsh.method import Method
from gpulsh.params import BandShape, Family, NearBits, Shingling
from gpulsh.secret import EvidenceKeys
from gpulsh.sketch.simhash import keys_of
from gpulsh.stats.stages import Funnel, Progress

LEAST = Family(num_perm=1), BandShape(bands=1, rows=1)  # of the signature that is made beside what it is made for


def sign_bits(text: TextBatch, shingling: Shingling, near: NearBits, keys: EvidenceKeys, ops: Backend) -> Signed:
    """Digests uint64 [n, tables], equal where the bits of a table's key are; exact hashes; numbers of shingles."""
    return words_and_digests(text, shingling, near, keys, ops)[1]


def words_and_digests(
    text: TextBatch, shingling: Shingling, near: NearBits, keys: EvidenceKeys, ops: Backend
) -> tuple[Array, Signed]:
    """SimHash's bits, uint64 [n, bits / 64], and what `sign_bits` makes of them."""
    signed = ops.sign(text, shingling, *LEAST, keys)
    words = ops.text_simhash(text, shingling, keys_of(near.bits, near.seed), near.weights == "set")
    columns = [_digests(words, key, signed.shingles > 0) for key in designs(near.bits, near.distance)[near.tables].keys]
    return words, Signed(np.stack(columns, axis=1), signed.exact, signed.shingles)


def _digests(words: Array, key: int, filled: Array) -> Array:
    digests = key_digests(words, key)
    digests[digests == np.uint64(NO_DIGEST)] = np.uint64(INSTEAD_OF_NO_DIGEST)
    digests[~filled] = np.uint64(NO_DIGEST)
    return digests


@dataclass(frozen=True)
class SignedSets:
    """A batch: its exact hashes, without a digest, and NumPy's unique fingerprints, in ranges where they are many.

    The fingerprints are public: they propose pairs, and prove nothing.
    """

    signed: Signed
    sets: Sequence[Fingerprints]


def sign_sets(batch: TextBatch, method: Method, keys: EvidenceKeys, ops: Backend) -> SignedSets:
    """One batch, the exact hashes under `keys`."""
    least = ops.sign(batch, method.reading, *LEAST, keys)
    size, whole = int(batch.offset[-1] - batch.offset[0]), ops.sizes().whole

    def sets(parts: int) -> list[Fingerprints]:
        if parts <= 1:
            return [ops.shingle_sets(batch, method.reading).moved(ops.asnumpy)]
        return [ops.shingle_part(batch, method.reading, part, parts).moved(ops.asnumpy) for part in range(parts)]

    found, _ = in_fitting_parts(sets, -(-size // whole) if whole else 1)
    return SignedSets(Signed(least.digests[:, :0], least.exact, least.shingles), found)


Result = TypeVar("Result")
Sign = Callable[[TextBatch, Method, EvidenceKeys, Backend], Result]


def sign_by_method(batch: TextBatch, method: Method, keys: EvidenceKeys, ops: Backend) -> Signed:
    """One batch, by the sketch of the method."""
    if method.near is not None:
        return sign_bits(batch, method.reading, method.near, keys, ops)
    return ops.sign(batch, method.reading, method.family, method.banding, keys)


def sign_batches(
    batches: Iterable[TextBatch],
    method: Method,
    keys: EvidenceKeys,
    ops: Backend,
    funnel: Funnel,
    progress: Progress,
    by: Sign[Result],
) -> Iterator[Result]:
    """The documents of `batches`, signed `by` a function, their exact hashes under `keys`; counts their bytes."""

    def prepared() -> Iterator[TextBatch]:
        for batch in batches:
            size, count = int(batch.offset[-1] - batch.offset[0]), len(batch)
            ready = normalized(batch, method.folding.form)
            del batch
            yield ready
            del ready  # before the next one is read
            funnel.bytes += size
            progress.advance(size)
            progress.count(documents=count)

    with ops.here():
        yield from map_batches(ops, prepared(), lambda lane, batch: by(batch, method, keys, lane))
