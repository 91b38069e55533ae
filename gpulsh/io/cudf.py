"""The door for cuDF: a Series of strings on the device, handed over a part at a time by the Series' own methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.errors import InputTypeError
from gpulsh.io.rows import Bytes, joined, packed
from gpulsh.io.texts import Chosen, MemoryTexts, arrow_texts

ROWS = 1 << 18  # rows brought from the device at once


def open_series(series: Any) -> MemoryTexts:
    """A `cudf.Series` of strings as texts; positions are row numbers, whatever its index."""
    if getattr(series, "ndim", 0) != 1 or not hasattr(series, "to_arrow"):
        raise InputTypeError(f"texts is a cuDF {type(series).__name__}; give one column of it, as frame['text']")
    if str(series.dtype) not in ("object", "str", "string", "category"):
        raise InputTypeError(f"texts is a cuDF Series of {series.dtype}; give one of strings")
    return _SeriesTexts(series)


class _SeriesTexts:
    """Parts of the Series become Arrow arrays on the host, one at a time: never a second copy of the whole."""

    def __init__(self, series: Any) -> None:
        self._series = series
        self._sizes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._series)

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        sizes: list[NDArray[np.int64]] = []

        def pieces() -> Iterator[TextBatch]:
            for start in range(0, len(self._series), ROWS):
                part = _on_host(self._series.iloc[start : start + ROWS])
                for batch in part.batches(max_bytes):
                    sizes.append(np.diff(batch.offset))
                    yield batch

        yield from packed(pieces(), max_bytes)
        self._sizes = np.concatenate([np.zeros(0, np.int64), *sizes])

    def nulls(self) -> int:
        return int(self._series.isna().sum())

    def choose(self, ids: NDArray[np.int64]) -> Chosen:
        if self._sizes is None:
            for _ in self.batches(1 << 26):
                pass
        assert self._sizes is not None
        return Chosen(ids, self._sizes[ids], lambda ids: joined(self._pieces(ids)))

    def _pieces(self, ids: NDArray[np.int64]) -> list[Bytes]:
        part = _on_host(self._series.iloc[ids])
        batches = list(part.batches(1 << 62))
        return [
            batch.values.data[start:stop]
            for batch in batches
            for start, stop in zip(batch.offset[:-1].tolist(), batch.offset[1:].tolist(), strict=True)
        ]


def _on_host(series: Any) -> MemoryTexts:
    return arrow_texts(series.to_arrow(), "cuDF Series")
