"""Spans of texts that a copy of a file leaves out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.io.columns import Columns
from gpulsh.io.rows import Bytes


@dataclass(frozen=True)
class Cuts:
    """Spans of a file: int64 [k] each, by row, then start, apart; `columns` names the text."""

    row: Numbers
    start: Numbers  # bytes of the text as UTF-8
    stop: Numbers
    columns: Columns

    def changed(self, rows: Numbers) -> NDArray[np.bool_]:
        """bool: which of `rows` lose something; the work does not depend on the other spans of the file."""
        first, last = (np.searchsorted(self.row, rows, side=side) for side in ("left", "right"))
        found: NDArray[np.bool_] = first < last
        return found

    def text(self, row: int, text: Bytes) -> bytes:
        """A row's text without its spans."""
        low, high = np.searchsorted(self.row, [row, row + 1]).tolist()
        begins = [0, *self.stop[low:high].tolist()]
        ends = [*self.start[low:high].tolist(), len(text)]
        return b"".join(bytes(text[begin:end]) for begin, end in zip(begins, ends, strict=True))
