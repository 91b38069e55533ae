"""How other libraries hash a token on the host: SHA-1 of the standard library, or xxHash by its package."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from hashlib import sha1
from typing import Any

from gpulsh.errors import ParameterError

EXTRA = "pip install 'gpulsh[compat]'"

Hash = Callable[[bytes], int]


def sha1_bits(bits: int) -> Hash:
    """The first `bits` of SHA-1 as a little-endian number.

    >>> sha1_bits(32)(b"hello world")
    896314922
    """
    return lambda token: int.from_bytes(sha1(token, usedforsecurity=False).digest()[: bits // 8], "little")


def xxhash_function(name: str, **options: int) -> Callable[..., Any]:
    """A function of the package xxhash. ParameterError where it is not installed."""
    try:
        xxhash: Any = importlib.import_module("xxhash")
    except ImportError:
        raise ParameterError(f"this scheme's hash needs the package xxhash: {EXTRA}") from None
    function: Callable[..., Any] = getattr(xxhash, name)
    return partial(function, **options) if options else function
