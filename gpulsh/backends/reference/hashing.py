"""The hash definitions of `protocol` in Python integers, so that no overflow rule of an array library takes part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from gpulsh import secret
from gpulsh.backends.protocol import GOLDEN, LENGTH, MIX_1, MIX_2, STREAM_SHINGLE, STREAM_TOKEN, WINDOW_PART
from gpulsh.secret import EvidenceKeys

MASK = (1 << 64) - 1
IRREDUCIBLE = 1 << 64 | 0b11011
PRIME = (1 << 61) - 1


def mix64(x: int) -> int:
    """A bijection of 64-bit integers with full avalanche."""
    x &= MASK
    x ^= x >> 27
    x = x * MIX_1 & MASK
    x ^= x >> 33
    x = x * MIX_2 & MASK
    return x ^ x >> 27


@cache
def key(stream: int, place: int) -> int:
    """The odd multiplier of one place."""
    return mix64(stream + (place + 1) * GOLDEN) | 1


@lru_cache(maxsize=1 << 16)
def keyed(keys: EvidenceKeys, near: int, places: int, far: int, place: int) -> int:
    """The secret multiplier of one place, of the keys that begin at `near`, `places` of them, and `far`."""
    number, factor = place // places, int(keys.words[near + place % places])
    for level in range(secret.LEVELS):
        number, digit = divmod(number, secret.DIGITS)
        factor = factor * int(keys.words[far + level * secret.DIGITS + digit]) & MASK
    return factor


def token_key(keys: EvidenceKeys | None, place: int) -> int:
    """The multiplier of one place of a token."""
    if keys is None:
        return key(STREAM_TOKEN, place)
    return keyed(keys, secret.TOKEN, secret.PLACES, secret.TOKEN_FAR, place)


@lru_cache(maxsize=1 << 12)
def shingle_key(keys: EvidenceKeys | None, place: int) -> int:
    """The multiplier of one place of a shingle."""
    return key(STREAM_SHINGLE, place) if keys is None else int(keys.words[secret.SHINGLE + place])


def token_hash(code_points: Sequence[int], keys: EvidenceKeys | None = None) -> int:
    """The hash of one token's folded code points."""
    total = sum(token_key(keys, place) * point for place, point in enumerate(code_points))
    return mix64(total + len(code_points) * LENGTH)


def shingle_hash(tokens: Sequence[int], keys: EvidenceKeys | None = None) -> int:
    """The fingerprint of one shingle's token hashes."""
    total = sum(shingle_key(keys, place) * token for place, token in enumerate(tokens))
    return mix64(total + len(tokens) * LENGTH)


def window_hash(tokens: Sequence[int], keys: EvidenceKeys | None = None) -> int:
    """The hash of a window of token hashes."""
    if len(tokens) <= WINDOW_PART:
        return shingle_hash(tokens, keys)
    part = WINDOW_PART
    while 2 * part < len(tokens):
        part *= 2
    first, last = window_hash(tokens[:part], keys), window_hash(tokens[-part:], keys)
    return mix64(shingle_key(keys, 0) * first + shingle_key(keys, 1) * last)


def rabin_hash(tokens: Sequence[int]) -> int:
    """The fingerprint of one shingle's token hashes, by long division of polynomials over GF(2)."""
    rest = 1
    for token in tokens:
        rest = rest << 64 | token
        for power in range(rest.bit_length() - 1, 63, -1):
            if rest >> power & 1:
                rest ^= IRREDUCIBLE << power - 64
    return mix64(rest)


def karp_rabin_hash(tokens: Sequence[int], keys: EvidenceKeys | None = None) -> int:
    """The fingerprint of one shingle's token hashes, by a polynomial modulo a prime."""
    base = STREAM_SHINGLE if keys is None else int(keys.words[secret.SHINGLE])
    value = 1
    for token in tokens:
        value = (value * base + token) % PRIME
    return mix64(value)


def packed_token(code_points: Sequence[int], keys: EvidenceKeys) -> int:
    """One token's folded code points in 64 bits."""
    total = 0
    for place, code_point in enumerate(code_points):
        plain = place < 8 and code_point < 0x80
        total += code_point << 8 * place if plain else token_key(keys, place) * code_point
    return total & MASK


def exact_hash(packed: Sequence[int], keys: EvidenceKeys) -> tuple[int, int]:
    """The 128-bit hash of a document's packed tokens."""
    sums = []
    for half in range(2):
        near, far = secret.EXACT + half * secret.EXACT_PLACES, secret.EXACT_FAR + half * secret.LEVELS * secret.DIGITS
        spread, total = int(keys.words[secret.EXACT_SPREAD + half]), 0
        for place, token in enumerate(packed):
            reversed_bytes = int.from_bytes((token * spread & MASK).to_bytes(8, "little"), "big")
            total += keyed(keys, near, secret.EXACT_PLACES, far, place) * reversed_bytes
        sums.append(total & MASK)
    return sums[0], sums[1]
