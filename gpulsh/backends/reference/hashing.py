"""The hash definitions of `protocol` in Python integers, so that no overflow rule of an array library takes part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gpulsh.backends.protocol import (
    EXACT_2,
    GOLDEN,
    LENGTH,
    MIX_1,
    MIX_2,
    STREAM_SHINGLE,
    STREAM_TOKEN,
)

MASK = (1 << 64) - 1


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


def token_hash(code_points: Sequence[int]) -> int:
    """The hash of one token's folded code points."""
    total = sum(key(STREAM_TOKEN, place) * code_point for place, code_point in enumerate(code_points))
    return mix64(total + len(code_points) * LENGTH)


def shingle_hash(tokens: Sequence[int]) -> int:
    """The fingerprint of one shingle's token hashes."""
    total = sum(key(STREAM_SHINGLE, place) * token for place, token in enumerate(tokens))
    return mix64(total + len(tokens) * LENGTH)


def exact_hash(tokens: Sequence[int]) -> tuple[int, int]:
    """The 128-bit hash of a document's token hashes."""
    if not tokens:
        return 0, 0
    mixed = [mix64(token + (place + 1) * GOLDEN) for place, token in enumerate(tokens)]
    length = len(tokens) * LENGTH
    return mix64(sum(mixed) + length), mix64(sum(mix64(m ^ EXACT_2) for m in mixed) + length)
