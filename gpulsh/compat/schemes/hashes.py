"""How other libraries hash a token: SHA-1, or xxHash by its package."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from typing import Any

import numpy as np

from gpulsh.arrays import Fingerprints, Numbers, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.errors import InputTypeError, ParameterError, install

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

    def of_all(self, sets: Sequence[Sequence[object]], ops: Backend) -> Fingerprints:
        """That of every token of every set, in the backend's memory. InputTypeError where one is not of bytes."""
        texts, offset = end_to_end(sets)
        return Fingerprints(ops.sha1(texts) & np.uint64((1 << self.bits) - 1), ops.asarray(offset))


def end_to_end(sets: Sequence[Sequence[object]]) -> tuple[TextBatch, Numbers]:
    """The tokens of all sets as texts, and where each set begins: int64 [sets + 1].

    pyarrow takes lists of them several times as fast as Python joins them.
    """
    import pyarrow as pa

    try:
        rows = pa.array(sets, pa.large_list(pa.large_binary()))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputTypeError(f"tokens hold what is not of bytes: {error}") from None
    if rows.values.null_count:
        raise InputTypeError("tokens hold None; give bytes alone")
    _, ends, values = rows.values.buffers()
    offset = np.frombuffer(ends, np.int64)[: len(rows.values) + 1] if len(rows.values) else np.zeros(1, np.int64)
    return TextBatch(np.frombuffer(values or b"", np.uint8), offset), rows.offsets.to_numpy()


def xxhash_function(name: str, **options: int) -> Callable[..., Any]:
    """A function of the package xxhash. ParameterError where it is not installed."""
    try:
        xxhash: Any = importlib.import_module("xxhash")
    except ImportError:
        raise ParameterError(f"this scheme's hash needs the package xxhash: {install('compat')}") from None
    function: Callable[..., Any] = getattr(xxhash, name)
    return partial(function, **options) if options else function
