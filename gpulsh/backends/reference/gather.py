"""gather: slices as bytes, joined."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, TextBatch


def gather(values: Array, begin: Array, end: Array) -> TextBatch:
    rows = [bytes(values[start:stop]) for start, stop in zip(begin.tolist(), end.tolist(), strict=True)]
    offset = np.array([sum(map(len, rows[:row])) for row in range(len(rows) + 1)], np.int64)
    return TextBatch(np.frombuffer(b"".join(rows), np.uint8), offset)
