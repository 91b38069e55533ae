"""How other libraries hash a token: SHA-1, or xxHash by its package."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from typing import Any

import numpy as np

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.errors import ParameterError, install
from gpulsh.ragged import end_to_end

SETS_AT_ONCE = 1 << 8  # hashed: what they become stays in the cache

Hash = Callable[[bytes], int]


@dataclass(frozen=True)
class Sha1:
    """The first `bits` of SHA-1 as a little-endian number: of a token, or of many by a backend.

    >>> Sha1(32)(b"hello world")
    896314922
    """

    bits: int

    def __call__(self, token: bytes) -> int:
        """That of one token."""
        return int.from_bytes(sha1(token).digest()[: self.bits // 8], "little")

    def of_all(self, sets: list[list[Any]], ops: Backend) -> Fingerprints:
        """That of every token of every set, in the backend's memory. InputTypeError where one is not of bytes."""
        starts = range(0, max(len(sets), 1), SETS_AT_ONCE)
        return end_to_end([self._of_some(sets[start : start + SETS_AT_ONCE], ops) for start in starts])

    def _of_some(self, sets: list[list[Any]], ops: Backend) -> Fingerprints:
        from gpulsh.backends.cpu.objects import texts_of

        texts, begins = texts_of(sets)
        heads = ops.sha1(texts.moved(ops.asarray))
        heads &= np.uint64((1 << self.bits) - 1)
        return Fingerprints(heads, ops.asarray(begins))


def xxhash_function(name: str, **options: int) -> Callable[..., Any]:
    """A function of the package xxhash. ParameterError where it is not installed."""
    try:
        xxhash: Any = importlib.import_module("xxhash")
    except ImportError:
        raise ParameterError(f"this scheme's hash needs the package xxhash: {install('compat')}") from None
    function: Callable[..., Any] = getattr(xxhash, name)
    return partial(function, **options) if options else function
