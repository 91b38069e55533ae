"""The secret of a run, and the keys of its evidence.

Anybody can forge a hash whose keys are public: lattice reduction and generalised birthday search (Wagner 2002) solve
sums of independent terms. So signatures and band digests, which only propose pairs, are public and reproducible. The
exact hash and the fingerprints whose intersections are the evidence take their keys from 256 random bits. These are
drawn for each run, or for an index, and no output depends on them. The keys are SHAKE-256 (FIPS 202) of the secret;
`backends.protocol` says how they are used, and how likely a collision is.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpulsh.errors import ParameterError

SECRET_BYTES = 32
PLACES = 64  # places of a token with their own key; farther places have products
EXACT_PLACES = 1 << 10  # the same for the places of a document
DIGITS = 1 << 10  # the base in which far places are written
LEVELS = 3  # digits of a far place: places are below 2^36
LONGEST_SHINGLE = 64

# The first key of each use.
TOKEN = 0  # [PLACES], of the code points of a token
SHINGLE = TOKEN + PLACES  # [LONGEST_SHINGLE], of the tokens of a shingle
TOKEN_FAR = SHINGLE + LONGEST_SHINGLE  # [LEVELS, DIGITS]
EXACT = TOKEN_FAR + LEVELS * DIGITS  # [2, EXACT_PLACES], of the tokens of a document, for each half of the exact hash
EXACT_FAR = EXACT + 2 * EXACT_PLACES  # [2, LEVELS, DIGITS]
EXACT_SPREAD = EXACT_FAR + 2 * LEVELS * DIGITS  # [2], the first factors of a token
VALUES = EXACT_SPREAD + 2  # [2], the key of hashes of values
WORDS = VALUES + 2

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class EvidenceKeys:
    """Odd multipliers: `words` uint64 [WORDS], in the order above.

    The key of place p of a token is the near key of p % PLACES, times the far key [level, digit] of each digit of
    p // PLACES, the lowest digit first. Places of a document have EXACT_PLACES instead of PLACES. The far keys of digit
    0 are 1, so near places cost nothing more.
    """

    words: Words = field(repr=False)

    @property
    def of_values(self) -> Words:
        """uint64 [2]: the key of `backends.host.keyed_hashes`."""
        return self.words[VALUES:WORDS]


def chosen_secret(given: bytes | None) -> bytes:
    """`given`, or 256 new bits from the operating system; raises ParameterError for anything else."""
    if given is None:
        return secrets.token_bytes(SECRET_BYTES)
    if not isinstance(given, bytes) or len(given) != SECRET_BYTES:
        what = f"{len(given)} bytes" if isinstance(given, bytes) else f"of type {type(given).__name__}"
        raise ParameterError(f"secret is {what}; give {SECRET_BYTES} bytes, or None for new ones")
    return given


@lru_cache(maxsize=8)
def evidence_keys(secret: bytes) -> EvidenceKeys:
    """The keys of a secret."""
    stream = hashlib.shake_256(b"gpulsh evidence 1 " + secret).digest(8 * WORDS)
    words = np.frombuffer(stream, "<u8") | np.uint64(1)
    words[TOKEN_FAR:EXACT:DIGITS] = words[EXACT_FAR:EXACT_SPREAD:DIGITS] = 1
    return EvidenceKeys(words)
