"""Signing by SimHash: of each document a digest for each table of a Hamming search, which its bits in the key make."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Signed, TextBatch
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, Backend
from gpulsh.lsh.hamming_tables import key_digests
from gpulsh.lsh.table_designs import designs
from gpulsh.params import BandShape, Family, NearBits, Shingling
from gpulsh.secret import EvidenceKeys
from gpulsh.sketch.bits.simhash import keys_of

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
