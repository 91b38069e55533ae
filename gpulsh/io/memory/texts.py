"""Texts in memory, of every kind that `deduplicate` and its friends take, behind one interface."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers, TextBatch, Values, on_host
from gpulsh.backends.protocol import Backend
from gpulsh.errors import InputTypeError
from gpulsh.io.memory.strings import GROUP, is_null, string_rows
from gpulsh.io.memory.tables import column_of, has_columns, refuse_tables
from gpulsh.io.rows import Bytes, Chosen, ChosenTexts, Copy, Rows, TextSource, joined, packed
from gpulsh.ragged import as_one, sorted_distinct

if TYPE_CHECKING:
    import pyarrow as pa

ALLOWED = (
    "give a list of str, a numpy array of str or object, a pyarrow Array or ChunkedArray of strings,"
    " a pandas, polars or cuDF Series, a Dataset's column, a gpulsh.TextBatch, or an iterator of texts or of these"
)
HELD_BYTES = 16 << 20  # of texts of an iterator that are copied together


class MemoryTexts(TextSource, Protocol):
    """Documents in memory, by row number, that can be chosen and read again."""

    def __len__(self) -> int: ...

    def null_rows(self) -> NDArray[np.bool_]:
        """bool [n], on the host: which documents are null. Called after `batches`."""

    def nulls(self) -> int:
        """How many documents were null; complete after `batches` is exhausted."""

    def choose(self, ids: Array) -> ChosenTexts:
        """The documents `ids` [chosen], ascending positions, for reading again. Called after `batches`."""


def open_texts(texts: object, ops: Backend | None = None) -> MemoryTexts:
    """Documents in memory from any kind that is allowed; nothing is copied before it is read.

    A row that is None, NaN, pandas' NA or null in Arrow is a null document. Positions are row numbers, never an index.
    An iterator yields texts, or any of the other kinds; they are held as UTF-8. With a CUDA backend as `ops`, device
    memory is used in place.

    Raises InputTypeError if `texts` is of no such kind, or, while it is read, names the first row that is not a text.

    >>> list(open_texts(["one text", None]).batches(1000))[0].offset.tolist()
    [0, 8, 8]
    """
    if isinstance(texts, (str, bytes, bytearray, os.PathLike)):
        raise InputTypeError(
            f"texts is one {type(texts).__name__}; give a list of them, such as [text], or a path to"
            " gpulsh.deduplicate_files"
        )
    refuse_tables(texts)
    home = type(texts).__module__.partition(".")[0]
    if isinstance(texts, TextBatch):
        return _open_batch(texts, ops)
    if home == "cudf":
        from gpulsh.io.memory.cudf import open_series

        column = open_series(texts, ops)
        return column if hasattr(column, "batches") else arrow_texts(column, "cuDF Series", ops)
    if isinstance(texts, (list, tuple)):
        return _RowTexts([string_rows(texts, _readers(ops))])
    if isinstance(texts, np.ndarray):
        return _open_numpy(texts, ops)
    if home == "pandas" and hasattr(texts, "dtype"):  # which NA has not
        return _open_pandas(texts, ops)
    if home == "polars" and str(getattr(texts, "dtype", "")) == "Object":  # which Arrow sees as addresses
        return _RowTexts([string_rows(list(texts), _readers(ops))])  # type: ignore[call-overload]
    if home == "datasets":
        return _open_dataset(texts, ops)
    if isinstance(texts, Iterator):
        return _stream_texts(texts)
    if hasattr(texts, "__arrow_c_device_array__") and not getattr(texts, "is_cpu", home == "pyarrow"):
        return _open_arrow_device(texts, ops)
    if hasattr(texts, "__arrow_c_stream__") or hasattr(texts, "__arrow_c_array__"):
        return _open_arrow(texts, ops)
    raise InputTypeError(f"texts is of type {type(texts).__name__}; {ALLOWED}")


def _readers(ops: Backend | None) -> int:
    """Threads that have time to copy texts while `ops` works."""
    return 1 if ops is None else ops.sizes().readers


def _open_numpy(array: Values, ops: Backend | None) -> MemoryTexts:
    if array.ndim != 1:
        raise InputTypeError(f"texts is an array of {array.ndim} dimensions; give one of 1 dimension, a text a row")
    if array.dtype.kind not in "UTO":  # fixed-width strings, variable-width strings, objects
        hint = "bytes; decode them first" if array.dtype.kind == "S" else f"{array.dtype}"
        raise InputTypeError(f"texts is an array of {hint}; {ALLOWED}")
    if np.ma.is_masked(array):  # a masked row is null, whatever lies below its mask
        array, masked = np.array(array, object), np.ma.getmaskarray(array)
        array[masked] = None
    return _RowTexts([string_rows(array, _readers(ops))])


def _open_pandas(series: Any, ops: Backend | None) -> MemoryTexts:
    if getattr(series.dtype, "kind", "O") in "biufcmM":
        raise InputTypeError(f"texts is a Series of {series.dtype}; give one of strings")
    # Columns of pandas' string, category and Arrow types hand out Arrow memory; those of objects hold Python strings.
    in_python = getattr(series.dtype, "storage", "") == "python"
    held = getattr(series, "array", series)
    if hasattr(held, "__arrow_array__") and not in_python:
        return _open_arrow(held, ops)
    return _RowTexts([string_rows(series.to_numpy(dtype=object), _readers(ops))])


def _open_dataset(texts: Any, ops: Backend | None) -> MemoryTexts:
    source = texts.source
    if has_columns(source) and hasattr(source, "__len__"):
        return _open_arrow(column_of(source, f"column:{texts.column_name}"), ops)
    return _stream_texts(iter(texts))  # read as it comes, or a field of a column


def _stream_texts(items: Iterator[object]) -> MemoryTexts:
    from gpulsh.io.arrow.rows import arrow_rows

    null = [np.empty(0, np.bool_)]

    def batches() -> Iterator[TextBatch]:
        """Texts as they come, alone or several at once."""
        for alone, run in groupby(enumerate(items), lambda pair: isinstance(pair[1], str) or is_null(pair[1])):
            while some := list(islice(run, GROUP if alone else 1)):
                number, item = some[0]
                try:
                    texts = open_texts([text for _, text in some] if alone else item)
                    yield from texts.batches(HELD_BYTES)
                except InputTypeError as error:
                    raise InputTypeError(f"item {number} of texts: {error}") from error
                null.append(texts.null_rows())

    blocks = [arrow_rows(_binary(batch)) for batch in packed(batches(), HELD_BYTES)]
    return _RowTexts(blocks, null=np.concatenate(null))


def _open_batch(batch: TextBatch, ops: Backend | None) -> MemoryTexts:
    if ops is not None and ops.name == "cuda" and not isinstance(batch.values, np.ndarray):
        from gpulsh.io.memory.device import DeviceTexts

        with ops.here():
            return DeviceTexts(batch.moved(ops.asarray), None, ops)
    return arrow_texts(_binary(batch), "TextBatch", ops)


def _binary(batch: TextBatch) -> pa.Array:
    from gpulsh.io.arrow.buffers import binary_array

    batch = batch.moved(on_host)
    return binary_array(np.ascontiguousarray(batch.values), batch.offset)


def _open_arrow_device(texts: Any, ops: Backend | None) -> MemoryTexts:
    from gpulsh.io.memory.device import device_column

    column, given = device_column(texts), type(texts).__name__
    if not column.is_on_host and ops is not None and ops.name == "cuda":
        return column.texts(ops, given)
    if not hasattr(texts, "__arrow_c_array__"):
        raise InputTypeError(
            f"texts, a {given}, is device memory; copy it to the host, or give backend='cuda' on that device"
        )
    return _open_arrow(_AsHostArray(texts), ops)


class _AsHostArray:
    """Hides the device interface of an object, which pyarrow would prefer."""

    def __init__(self, texts: Any) -> None:
        self.__arrow_c_array__ = texts.__arrow_c_array__


def _open_arrow(texts: Any, ops: Backend | None) -> MemoryTexts:
    import pyarrow as pa

    try:
        if isinstance(texts, (pa.Array, pa.ChunkedArray)):
            array = texts
        elif hasattr(texts, "__arrow_c_stream__"):
            array = pa.chunked_array(texts)
        else:
            array = pa.array(texts)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputTypeError(f"texts, a {type(texts).__name__}, is not an Arrow column: {error}; {ALLOWED}") from error
    return arrow_texts(array, type(texts).__name__, ops)


def arrow_texts(array: pa.Array | pa.ChunkedArray, given: str, ops: Backend | None) -> MemoryTexts:
    """A `pyarrow.Array` or `ChunkedArray` as texts; `given` names it in errors; a CPU's `ops` copy chosen ones."""
    import pyarrow as pa

    from gpulsh.io.arrow.rows import arrow_rows, is_text
    from gpulsh.io.arrow.soundness import check_given

    if pa.types.is_struct(array.type):
        raise InputTypeError(f"texts, a {given}, has columns; give one of them, such as frame['text']")
    if not is_text(array.type):
        raise InputTypeError(f"texts, a {given}, is of Arrow type {array.type}; give strings, or binary that is UTF-8")
    check_given(array, f"texts, a {given},")
    blocks = [arrow_rows(chunk) for chunk in (array.chunks if hasattr(array, "chunks") else [array])]
    return _RowTexts(blocks, None if ops is None or ops.name == "cuda" else ops.gather)


class _RowTexts:
    """Blocks of rows in memory, such as the chunks of an Arrow array."""

    def __init__(self, blocks: Sequence[Rows], copy: Copy | None = None, null: NDArray[np.bool_] | None = None) -> None:
        self._blocks, self._copy, self._null = blocks, copy, null
        self._starts = np.cumsum([0, *map(len, blocks)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        return packed((piece for block in self._blocks for piece in block.slices(max_bytes)), max_bytes)

    def null_rows(self) -> NDArray[np.bool_]:
        if self._null is not None:
            return self._null
        return np.concatenate([np.empty(0, np.bool_), *(block.null_rows() for block in self._blocks)])

    def nulls(self) -> int:
        return sum(block.nulls() for block in self._blocks) if self._null is None else int(self._null.sum())

    def choose(self, ids: Array) -> Chosen:
        ids = on_host(ids)
        sizes = np.zeros(len(ids), np.int64)
        owner = self._owner(ids)
        for number in sorted_distinct(owner).tolist():
            of_block = owner == number
            sizes[of_block] = self._blocks[number].lengths()[ids[of_block] - self._starts[number]]
        return Chosen(sizes, lambda places: self._gather(ids[places]))

    def _owner(self, ids: Numbers) -> Numbers:
        # The last block that begins at or before the row: empty blocks begin where the next one does.
        return np.asarray(np.searchsorted(self._starts, ids, side="right") - 1, np.int64)

    def _gather(self, ids: Numbers) -> TextBatch:
        owner = self._owner(ids)
        numbers = np.flatnonzero(np.bincount(owner)).tolist()
        if len(numbers) == 1:
            return self._blocks[numbers[0]].gather(ids - self._starts[numbers[0]], self._copy)
        places = [np.flatnonzero(owner == number) for number in numbers]
        rows = [ids[here] - self._starts[number] for here, number in zip(places, numbers, strict=True)]
        if numbers and bool((np.diff(owner) >= 0).all()):
            parts = [self._blocks[number].gather(of, self._copy) for number, of in zip(numbers, rows, strict=True)]
            return as_one(parts)
        pieces: list[Bytes] = [b""] * len(ids)
        for number, here, of in zip(numbers, places, rows, strict=True):
            for place, piece in zip(here.tolist(), self._blocks[number].pieces(of), strict=True):
                pieces[place] = piece
        return joined(pieces)
