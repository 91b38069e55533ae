"""Texts in memory, of every kind that `deduplicate` and related functions take, as one class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers, TextBatch, Values, on_host
from gpulsh.backends.protocol import Backend
from gpulsh.checks import shown_type
from gpulsh.errors import InputError, InputTypeError
from gpulsh.io.memory.strings import GROUP, is_null, string_rows
from gpulsh.io.memory.tables import has_columns, refuse_tables, table_texts
from gpulsh.io.rows import Bytes, Chosen, ChosenTexts, Copy, Rows, TextSource, join_texts, repack
from gpulsh.ragged import concat_texts, places_by_value, row_of

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
            f"texts is one {type(texts).__name__}; give a list of them, such as [text]; functions for files, such as"
            " gpulsh.deduplicate_files, take paths"
        )
    if isinstance(texts, type):  # it has the methods of its objects
        raise InputTypeError(f"texts is {shown_type(texts)}; {ALLOWED}")
    refuse_tables(texts)
    home = type(texts).__module__.partition(".")[0]
    readers = 1 if ops is None else ops.sizes().readers  # threads that have time to copy texts while `ops` works
    if isinstance(texts, TextBatch):
        if ops is not None and ops.name == "cuda" and not isinstance(texts.values, np.ndarray):
            from gpulsh.io.memory.device import DeviceTexts

            with ops.use_device():
                return DeviceTexts(texts.moved(ops.asarray), None, ops)
        return arrow_texts(_binary(texts), "TextBatch", ops)
    if home == "cudf":
        from gpulsh.io.memory.cudf import open_series

        column = open_series(texts, ops)
        return column if hasattr(column, "batches") else arrow_texts(column, "cuDF Series", ops)
    if isinstance(texts, (list, tuple)):
        return _RowTexts([string_rows(texts, readers)])
    if isinstance(texts, np.ndarray):
        return _RowTexts([string_rows(_numpy_strings(texts), readers)])
    if home == "pandas" and hasattr(texts, "dtype"):  # pandas.NA has none
        return _open_pandas(texts, readers, ops)
    if home == "polars" and str(getattr(texts, "dtype", "")) == "Object":  # Arrow would take such values for addresses
        return _RowTexts([string_rows(list(texts), readers)])  # type: ignore[call-overload]
    if home == "datasets":
        of: Any = texts
        if not hasattr(of, "__len__"):
            return _stream_texts(iter(of))
        if has_columns(of.source):
            return _open_arrow(table_texts(of.source, f"column:{of.column_name}"), ops)
        return _stream_texts(of[start : start + GROUP] for start in range(0, len(of), GROUP))  # a field of a column
    if isinstance(texts, Iterator):
        return _stream_texts(texts)
    if hasattr(texts, "__arrow_c_device_array__") and not getattr(texts, "is_cpu", home == "pyarrow"):
        return _open_arrow_device(texts, ops)
    if hasattr(texts, "__arrow_c_stream__") or hasattr(texts, "__arrow_c_array__"):
        return _open_arrow(texts, ops)
    raise InputTypeError(f"texts is of type {type(texts).__name__}; {ALLOWED}")


@contextmanager
def texts_named(name: str) -> Iterator[None]:
    """Errors about texts call them `name`."""
    try:
        yield
    except InputError as error:
        raise type(error)(error.message.replace("texts", name, 1)) from error


def _numpy_strings(array: Values) -> Values:
    if array.ndim != 1:
        raise InputTypeError(
            f"texts is an array of {array.ndim} dimensions; give one of 1 dimension, with one text per row"
        )
    if array.dtype.kind not in "UTO":  # fixed-width strings, variable-width strings, objects
        hint = "bytes; decode them first" if array.dtype.kind == "S" else f"{array.dtype}"
        raise InputTypeError(f"texts is an array of {hint}; {ALLOWED}")
    if np.ma.is_masked(array):  # a masked row is null, whatever its value
        array, masked = np.array(array, object), np.ma.getmaskarray(array)
        array[masked] = None
    return array


def _open_pandas(series: Any, readers: int, ops: Backend | None) -> MemoryTexts:
    if getattr(series.dtype, "kind", "O") == "f" and series.isna().all():  # as pandas reads a column without any text
        series = series.astype(object)
    if getattr(series.dtype, "kind", "O") in "biufcmM" or getattr(series, "nlevels", 1) > 1:
        raise InputTypeError(f"texts is a {type(series).__name__} of {series.dtype}; give one of strings")
    # Columns of pandas' string, category and Arrow types hand out Arrow memory; those of objects hold Python strings.
    held = getattr(series, "array", series)
    if hasattr(held, "__arrow_array__") and getattr(series.dtype, "storage", "") != "python":
        return _open_arrow(held, ops)
    return _RowTexts([string_rows(series.to_numpy(dtype=object), readers)])


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

    blocks = [arrow_rows(_binary(batch)) for batch in repack(batches(), HELD_BYTES)]
    return _RowTexts(blocks, null=np.concatenate(null))


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
    # pyarrow would prefer the device interface of the object.
    return _open_arrow(SimpleNamespace(__arrow_c_array__=texts.__arrow_c_array__), ops, given)


def _open_arrow(texts: Any, ops: Backend | None, given: str | None = None) -> MemoryTexts:
    import pyarrow as pa

    given = given or type(texts).__name__
    try:
        if isinstance(texts, (pa.Array, pa.ChunkedArray)):
            array = texts
        elif hasattr(texts, "__arrow_c_stream__"):
            array = pa.chunked_array(texts)
        else:
            array = pa.array(texts)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputTypeError(f"texts, a {given}, is not an Arrow column: {error}; {ALLOWED}") from error
    return arrow_texts(array, given, ops)


def arrow_texts(array: pa.Array | pa.ChunkedArray, given: str, ops: Backend | None) -> MemoryTexts:
    """A `pyarrow.Array` or `ChunkedArray` as texts; `given` names it in errors; a CPU's `ops` copy chosen ones."""
    import pyarrow as pa

    from gpulsh.io.arrow.rows import arrow_rows, is_text
    from gpulsh.io.arrow.validation import check_arrow

    if pa.types.is_struct(array.type):
        raise InputTypeError(
            f"texts, a {given}, has columns; give one of them; gpulsh.deduplicate also takes a table with"
            " text_column='text'"
        )
    if not is_text(array.type):
        raise InputTypeError(f"texts, a {given}, is of Arrow type {array.type}; give strings, or binary that is UTF-8")
    check_arrow(array, f"texts, a {given},")
    chunks = array.chunks if hasattr(array, "chunks") else [array]
    blocks = list(map(arrow_rows, chunks))
    return _RowTexts(blocks, None if ops is None or ops.name == "cuda" else ops.gather)


class _RowTexts:
    """Blocks of rows in memory, such as the chunks of an Arrow array."""

    def __init__(self, blocks: Sequence[Rows], copy: Copy | None = None, null: NDArray[np.bool_] | None = None) -> None:
        self._blocks, self._copy, self._null = blocks, copy, null
        self._starts = np.cumsum([0, *map(len, blocks)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        return repack((piece for block in self._blocks for piece in block.slices(max_bytes)), max_bytes)

    def null_rows(self) -> NDArray[np.bool_]:
        if self._null is not None:
            return self._null
        return np.concatenate([np.empty(0, np.bool_), *(block.null_rows() for block in self._blocks)])

    def nulls(self) -> int:
        return sum(block.nulls() for block in self._blocks) if self._null is None else int(self._null.sum())

    def choose(self, ids: Array) -> Chosen:
        ids = on_host(ids)
        sizes = np.zeros(len(ids), np.int64)
        for block, places, rows in self._of_blocks(ids):
            sizes[places] = block.lengths()[rows]
        return Chosen(sizes, lambda places: self._gather(ids[places]))

    def _of_blocks(self, ids: Numbers) -> list[tuple[Rows, Numbers, Numbers]]:
        """Each block that has some of the documents, their places in `ids`, and their rows of the block."""
        # The last block that begins at or before the row: empty blocks begin where the next one does.
        found = places_by_value(row_of(self._starts, ids))
        return [(self._blocks[number], here, ids[here] - self._starts[number]) for number, here in found]

    def _gather(self, ids: Numbers) -> TextBatch:
        found = self._of_blocks(ids)
        if found and (np.diff(np.concatenate([places for _, places, _ in found])) > 0).all():  # block after block
            return concat_texts([block.gather(rows, self._copy) for block, _, rows in found])
        pieces: list[Bytes] = [b""] * len(ids)
        for block, places, rows in found:
            for place, piece in zip(places.tolist(), block.pieces(rows), strict=True):
                pieces[place] = piece
        return join_texts(pieces)
