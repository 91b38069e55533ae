"""Bytes of texts: gather joins slices; sha1 is the standard library's, a text at a time."""

from __future__ import annotations

from hashlib import sha1 as digest_of
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, TextBatch


def gather(values: Array, begin: Array, end: Array) -> TextBatch:
    rows = [bytes(values[start:stop]) for start, stop in zip(begin.tolist(), end.tolist(), strict=True)]
    offset = np.array([sum(map(len, rows[:row])) for row in range(len(rows) + 1)], np.int64)
    return TextBatch(np.frombuffer(b"".join(rows), np.uint8), offset)


def sha1(text: TextBatch) -> NDArray[np.uint64]:
    texts = (text.values[start:stop].tobytes() for start, stop in pairwise(text.offset.tolist()))
    heads = [digest_of(one, usedforsecurity=False).digest()[:8] for one in texts]
    return np.frombuffer(b"".join(heads), "<u8").astype(np.uint64)
