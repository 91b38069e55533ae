"""Arrow arrays of text as rows: the data buffer is used in place, and offsets become 64-bit batch by batch.

Texts that are not adjacent are copied together, by Arrow's kernels: in one pass, without Python's lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.io.arrow.buffers import binary_array, null_mask, number_values, runs_as_dictionary, to_arrow
from gpulsh.io.format import Mask
from gpulsh.io.rows import Bytes, Copy, Rows, batch_cuts, byte_values, gather_texts, piece_rows
from gpulsh.ragged import offsets

NARROW = (1 << 31) - 1  # bytes that 32-bit offsets count


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type can be read as text: strings, binary (taken as UTF-8), coded ones of these, all null."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_text(kind.storage_type)
    if is_coded(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_null(kind) or _has_offsets(kind) or has_views(kind))


def is_coded(kind: pa.DataType) -> bool:
    """Whether an Arrow type stores repeated values once: dictionaries and runs."""
    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))


def arrow_rows(array: pa.Array) -> Rows:
    """The rows of a `pyarrow.Array` whose type `is_text`."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return arrow_rows(array.storage)
    if pa.types.is_null(kind):
        return piece_rows([None] * len(array))
    if is_coded(kind):
        return _DictionaryRows(array if pa.types.is_dictionary(kind) else runs_as_dictionary(array))
    return _OffsetRows(array) if _has_offsets(kind) else _ViewRows(array)


def text_lengths(array: pa.Array) -> Numbers:
    """int64 [n]: bytes of each value of an array, 0 if they are not text."""
    has_bytes = is_text(array.type) and not pa.types.is_null(array.type)
    return arrow_rows(array).lengths() if has_bytes else np.zeros(len(array), np.int64)


def empty_rows(count: int) -> Rows:
    """So many empty texts, for documents whose texts are not needed."""
    return _OffsetRows(binary_array(b"", np.zeros(count + 1, np.int64)))


def array_of(rows: Rows) -> pa.Array | None:
    """The pyarrow.Array of the rows, where its texts are adjacent."""
    return rows._array if type(rows) is _OffsetRows else None  # cheaper than isinstance of a protocol


def _has_offsets(kind: pa.DataType) -> bool:
    return str(kind) in ("string", "large_string", "binary", "large_binary")


def has_views(kind: pa.DataType) -> bool:
    """Whether texts of an Arrow type are views; older releases of pyarrow have such types, but no test for them."""
    return str(kind) in ("string_view", "binary_view")


class _ArrowRows(Rows):
    """Rows of an array, with their lengths, 0 where null, and its null mask, if it has nulls."""

    _lengths: Numbers
    _null: Mask | None

    def __len__(self) -> int:
        return len(self._lengths)

    def lengths(self) -> Numbers:
        return self._lengths

    def null_rows(self) -> NDArray[np.bool_]:
        return np.zeros(len(self), np.bool_) if self._null is None else self._null

    def nulls(self) -> int:
        return 0 if self._null is None else int(np.count_nonzero(self._null))


class _OffsetRows(_ArrowRows):
    """string, large_string, binary, large_binary."""

    def __init__(self, array: pa.Array) -> None:
        wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        self._array = array
        self._null = null_mask(array)
        if len(array) == 0 or offsets is None:
            self._offset: NDArray[np.signedinteger] = np.zeros(len(array) + 1, np.int64)
        else:
            kind: type[np.signedinteger] = np.int64 if wide else np.int32
            self._offset = np.frombuffer(offsets, kind)[array.offset :][: len(array) + 1]
        self._values = np.frombuffer(data or b"", np.uint8)

    def __len__(self) -> int:
        return len(self._offset) - 1

    def lengths(self) -> Numbers:
        lengths = np.diff(self._offset).astype(np.int64, copy=False)
        if self._null is not None:
            lengths[self._null] = 0
        return lengths

    def size(self) -> int:
        return int(self._offset[-1] - self._offset[0]) if self._null is None else super().size()

    def slices(self, max_bytes: int) -> Iterator[TextBatch]:
        for start, stop in batch_cuts(self._offset, max_bytes):
            if self._null is None:
                yield TextBatch(self._values, self._offset[start : stop + 1].astype(np.int64, copy=False))
            else:
                yield self.gather(np.arange(start, stop))

    def gather(self, rows: Numbers, copy: Copy | None = None) -> TextBatch:
        begin, end = self._bounds(rows)
        apart = bool((begin[1:] != end[:-1]).any())
        if apart and copy is not None:
            return copy(self._values, begin, end)
        if not apart:
            return gather_texts(self._values, begin, end)
        offset = offsets(end - begin)
        return TextBatch(_take_texts(self._array, rows, int(offset[-1])), offset)

    def pieces(self, rows: Numbers) -> list[Bytes]:
        data = self._values.data
        begin, end = self._bounds(rows)
        return [data[start:stop] for start, stop in zip(begin.tolist(), end.tolist(), strict=True)]

    def _bounds(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        begin, end = self._offset[rows].astype(np.int64), self._offset[rows + 1].astype(np.int64)
        # Arrow lets a null row cover bytes, which are no text.
        return begin, end if self._null is None else np.where(self._null[rows], begin, end)


class _ViewRows(_ArrowRows):
    """string_view, binary_view: 16 bytes per row, texts of up to 12 bytes inside them, longer ones in data buffers."""

    def __init__(self, array: pa.Array) -> None:
        buffers = array.buffers()
        views = np.frombuffer(buffers[1] or b"", np.int32).reshape(-1, 4)[array.offset : array.offset + len(array)]
        self._null = null_mask(array)
        if self._null is not None:
            views = np.where(self._null[:, None], np.int32(0), views)  # views of nothing
        self._views = np.ascontiguousarray(views)
        self._inline = self._views.view(np.uint8).reshape(-1).data
        self._buffers = buffers[2:]
        self._data = [memoryview(buffer or b"").cast("B") for buffer in self._buffers]
        self._lengths = self._views[:, 0].astype(np.int64)

    def gather(self, rows: Numbers, copy: Copy | None = None) -> TextBatch:
        batch = _texts_of_views(self._views[rows], self._buffers)
        return super().gather(rows) if batch is None else batch

    def pieces(self, rows: Numbers) -> list[Bytes]:
        lengths = self._lengths[rows].tolist()
        buffers, starts = self._views[rows, 2].tolist(), self._views[rows, 3].tolist()
        inline, data = self._inline, self._data
        return [
            inline[16 * row + 4 : 16 * row + 4 + length] if length <= 12 else data[buffer][start : start + length]
            for row, length, buffer, start in zip(rows.tolist(), lengths, buffers, starts, strict=True)
        ]


class _DictionaryRows(_ArrowRows):
    """A dictionary of any of the others, decoded a batch at a time."""

    def __init__(self, array: pa.Array) -> None:
        self._words = arrow_rows(array.dictionary) if len(array.dictionary) else piece_rows([None])
        null = null_mask(array.indices)
        codes = number_values(array.indices).astype(np.int64, copy=False)
        self._codes = codes if null is None else np.where(null, 0, codes)
        if self._words.nulls():
            no_words = self._words.null_rows()[self._codes]
            null = no_words if null is None else null | no_words
        self._null, self._lengths = null, self._words.lengths()[self._codes]
        if null is not None:
            self._lengths[null] = 0

    def pieces(self, rows: Numbers) -> list[Bytes]:
        pieces = self._words.pieces(self._codes[rows])
        if self._null is not None:
            for place in np.flatnonzero(self._null[rows]).tolist():
                pieces[place] = b""
        return pieces


def _take_texts(array: pa.Array, rows: Numbers, size: int) -> NDArray[np.uint8]:
    """The texts at `rows` [m] of a pyarrow.Array with offsets, `size` bytes end to end; a null one has none."""
    if size > NARROW and (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        array = array.cast(pa.large_string() if pa.types.is_string(array.type) else pa.large_binary())
    return byte_values(array.take(to_arrow(rows)).buffers()[2])[:size]


def _texts_of_views(views: NDArray[np.int32], buffers: Sequence[pa.Buffer | None]) -> TextBatch | None:
    """The texts of views [m, 4], as Arrow lays them out, into data buffers; None where pyarrow has no such kernel."""
    try:
        given = [None, pa.py_buffer(np.ascontiguousarray(views)), *buffers]
        found = pa.Array.from_buffers(pa.binary_view(), len(views), given).cast(pa.large_binary())
    except (pa.ArrowNotImplementedError, ValueError):  # some releases of pyarrow cannot cast views
        return None
    _, offsets, content = found.buffers()
    return TextBatch(byte_values(content), np.frombuffer(offsets, np.int64)[: len(views) + 1])
