"""The secret of a run, and the keys under which its evidence is computed.

A hash whose keys are public can be forged: sums of independent terms give way to lattice reduction and to generalised
birthday search (Wagner 2002). So what only proposes (signatures, band digests) is public and reproducible, and what
proves (the exact hash, the fingerprints whose intersections are the evidence) takes its keys from 256 bits that are
drawn for each run, or for an index, and that no output depends on. The keys are SHAKE-256 (FIPS 202) of the secret;
`backends.protocol` tells what they multiply, and how likely a collision is.
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
PLACES = 64  # places of a token with a key of their own; farther ones have products
EXACT_PLACES = 1 << 10  # the same of a document
DIGITS = 1 << 10  # of a number in the base that far places are written in
LEVELS = 3  # digits of such a number: places below 2^36
LONGEST_SHINGLE = 64

# Where the keys of each use begin among all.
TOKEN = 0  # [PLACES], of the code points of a token
SHINGLE = TOKEN + PLACES  # [LONGEST_SHINGLE], of the tokens of a shingle
TOKEN_FAR = SHINGLE + LONGEST_SHINGLE  # [LEVELS, DIGITS]
EXACT = TOKEN_FAR + LEVELS * DIGITS  # [2, EXACT_PLACES], of the tokens of a document, for each half of the exact hash
EXACT_FAR = EXACT + 2 * EXACT_PLACES  # [2, LEVELS, DIGITS]
EXACT_SPREAD = EXACT_FAR + 2 * LEVELS * DIGITS  # [2], what a token is multiplied by first
WORDS = EXACT_SPREAD + 2

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class EvidenceKeys:
    """Odd multipliers: `words` uint64 [WORDS], in the order above.

    The key of place p is the near one of p % PLACES times the far one [level, digit] of each digit of p // PLACES, the
    lowest digit first; of a document's places with EXACT_PLACES. The far keys of digit 0 are 1, so that near places
    cost nothing more.
    """

    words: Words = field(repr=False)


def draw_secret() -> bytes:
    """256 bits of the system's generator."""
    return secrets.token_bytes(SECRET_BYTES)


def chosen_secret(given: bytes | None) -> bytes:
    """`given`, or a new one; ParameterError where it is no secret."""
    if given is None:
        return draw_secret()
    if not isinstance(given, bytes) or len(given) != SECRET_BYTES:
        told = f"{len(given)} bytes" if isinstance(given, bytes) else f"of type {type(given).__name__}"
        raise ParameterError(f"secret is {told}; give {SECRET_BYTES} bytes, or None for new ones")
    return given


@lru_cache(maxsize=8)
def evidence_keys(secret: bytes) -> EvidenceKeys:
    """The keys that follow from a secret."""
    words = np.frombuffer(_stream(secret, "evidence", 8 * WORDS), "<u8") | np.uint64(1)
    words[TOKEN_FAR:EXACT:DIGITS] = words[EXACT_FAR:EXACT_SPREAD:DIGITS] = 1
    return EvidenceKeys(words)


def _stream(secret: bytes, use: str, length: int) -> bytes:
    return hashlib.shake_256(f"gpulsh {use} 1 ".encode() + secret).digest(length)
