"""gather: one join of memoryviews, a copy a text; nothing has to be compiled before a first run reads texts."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, TextBatch
from gpulsh.ragged import offsets


def gather(values: Array, begin: Array, end: Array) -> TextBatch:
    data = np.ascontiguousarray(values).data
    # A copy of memory a row: nothing to compile.
    pieces = [data[start:stop] for start, stop in zip(begin.tolist(), end.tolist(), strict=True)]
    return TextBatch(np.frombuffer(b"".join(pieces), np.uint8), offsets(end - begin))
