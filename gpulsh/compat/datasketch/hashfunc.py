"""Hash functions of datasketch: SHA-1, its first bits as a little-endian number."""

from __future__ import annotations

from hashlib import sha1
from struct import Struct

_head32, _head64 = Struct("<I").unpack_from, Struct("<Q").unpack_from


def sha1_hash32(data: bytes) -> int:
    """The first 32 bits of SHA-1 as a little-endian number.

    >>> sha1_hash32(b"hello world")
    896314922
    """
    number: int = _head32(sha1(data).digest())[0]
    return number


def sha1_hash64(data: bytes) -> int:
    """The first 64 bits of SHA-1 as a little-endian number."""
    number: int = _head64(sha1(data).digest())[0]
    return number
