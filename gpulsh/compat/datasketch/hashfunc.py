"""Hash functions of datasketch: SHA-1, its first bits as a little-endian number."""

from __future__ import annotations

from hashlib import sha1


def sha1_hash32(data: bytes) -> int:
    """The first 32 bits of SHA-1 as a little-endian number.

    >>> sha1_hash32(b"hello world")
    896314922
    """
    return int.from_bytes(sha1(data).digest()[:4], "little")


def sha1_hash64(data: bytes) -> int:
    """The first 64 bits of SHA-1 as a little-endian number."""
    return int.from_bytes(sha1(data).digest()[:8], "little")
