"""Signing by nothing less than the set: of each document all fingerprints, where no sketch finds what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpulsh.arrays import Fingerprints, Signed, TextBatch
from gpulsh.backends.parts import in_fitting_parts
from gpulsh.backends.protocol import Backend
from gpulsh.lsh.bit_signing import LEAST
from gpulsh.method import Method
from gpulsh.secret import EvidenceKeys


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
