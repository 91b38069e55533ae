"""Hash functions of datasketch: SHA-1, its first bits as a little-endian number."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha1

import numpy as np
from numpy.typing import NDArray


def sha1_hash32(data: bytes) -> int:
    """The first 32 bits of SHA-1 as a little-endian number.

    >>> sha1_hash32(b"hello world")
    896314922
    """
    return int.from_bytes(sha1(data).digest()[:4], "little")


def sha1_hash64(data: bytes) -> int:
    """The first 64 bits of SHA-1 as a little-endian number."""
    return int.from_bytes(sha1(data).digest()[:8], "little")


def sha1_heads(tokens: Iterable[bytes]) -> NDArray[np.uint64]:
    """`sha1_hash64` of every token, uint64; `sha1_hash32` is its lower half."""
    digests = np.frombuffer(b"".join([sha1(token).digest() for token in tokens]), np.uint8).reshape(-1, 20)
    return np.ascontiguousarray(digests[:, :8]).view("<u8").reshape(-1)
