"""The contract of a file format: it reads the text of a file in blocks of rows, and writes a copy of the kept rows.

A copy may have more columns after its own, made for some rows at a time, and cut texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError
from gpulsh.io.columns import Columns
from gpulsh.io.compression import Compression
from gpulsh.io.file import FIRST, File, SeekPoint, wrong_row_count
from gpulsh.io.limits import Limit
from gpulsh.io.output_codec import NewFile, OutputCodec
from gpulsh.io.rows import Bytes, Rows

MakeColumns = Callable[[Numbers], pa.RecordBatch]
ROWS_AT_ONCE = 1 << 13  # whose columns are made together


def _unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


class AddedColumns:
    """Columns for the written `rows` of files, one after another; `make` gives the columns of some.

    They are made for many rows at once: a call costs as much as some hundred rows, and files may be small.
    """

    def __init__(self, schema: pa.Schema, rows: Numbers, make: MakeColumns) -> None:
        self.schema = schema
        self._rows, self._make, self._done = rows, make, 0
        self._begin, self._made = 0, dict[Callable[[pa.RecordBatch], Any], Any]()

    def take(self, rows: int, form: Callable[[pa.RecordBatch], Any] = _unchanged) -> Any:
        """The columns of the next so many rows, as a pyarrow.RecordBatch or in another `form` that can be sliced."""
        start, stop = self._done, self._done + rows
        self._done = stop
        if form not in self._made or start < self._begin or stop > self._begin + len(self._made[form]):
            some = self._rows[start : max(stop, start + ROWS_AT_ONCE)]
            self._begin, self._made = start, {form: form(self._make(some))}
        return self._made[form][start - self._begin : stop - self._begin]


def with_added(batches: Iterator[pa.RecordBatch], added: AddedColumns | None) -> Iterator[pa.RecordBatch]:
    """The batches with the columns of `added`."""
    for batch in batches:
        if added is not None:
            schema = pa.schema([*batch.schema, *added.schema], batch.schema.metadata)
            # Copies: in an Arrow file, the bytes of a slice depend on its place.
            more = [pa.concat_arrays([column]) for column in added.take(len(batch)).columns]
            batch = pa.record_batch([*batch.columns, *more], schema=schema)
        yield batch
        del batch  # before the next one is read


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
        rows = self.row.data  # a search by NumPy would take longer than the cut
        spans = slice(bisect_left(rows, row), bisect_right(rows, row))
        left = BytesIO()  # a list of the pieces may take several times the memory of the text
        begins, ends = (column.data[spans] for column in (self.stop, self.start))
        for begin, end in zip(chain([0], begins), chain(ends, [len(text)]), strict=True):
            left.write(text[begin:end])
        return left.getvalue()


Mask = NDArray[np.bool_]
Item = TypeVar("Item")
OrderValues: TypeAlias = "pa.Array | list[int | float | None]"  # for --keep COLUMN; a list where no one type holds them

BLOCK_BYTES = 8 << 20  # of text that a reader aims at holding at once
LARGE_TEXT = 16 << 20  # bytes; Parquet's statistics of such texts are copies, and Arrow may end the process there


class Part(NamedTuple):
    """Rows of a file that can be read without the rows before them."""

    number: int
    start: int
    rows: int
    size: int  # about how many bytes of text; of a file of lines, its bytes
    line: int = 1  # where it begins in a file of lines, from 1
    byte: int = 0  # likewise


@dataclass(frozen=True)
class Rules:
    """The rules of readers: the part to read, and how they treat records that they cannot use."""

    skip: bool = False  # reject bad records where later rows can still be read
    limit: Limit | None = None  # a larger document stops the run also with `skip`: give more memory
    part: Part | None = None  # only these rows, where the format has parts
    block_bytes: int = BLOCK_BYTES  # of text, about, in each block of a part


STRICT = Rules()


class Rejection(NamedTuple):
    """A bad record: rows that cannot be used, or a stretch of a file without rows, and the reason."""

    row: int  # the first of the rows, or the row after the stretch
    rows: int  # 0 for a stretch
    unit: Literal["row", "line", "byte"]  # the unit of `offset`: rows and bytes from 0, lines from 1
    offset: int
    reason: str


class Stray(NamedTuple):
    """Counts of rows with bytes that are invalid in their encoding, and of such bytes."""

    rows: int = 0
    bytes: int = 0


NO_STRAY = Stray()


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file, from row `start`. Rejected ones are null."""

    start: int
    texts: Rows
    order: OrderValues | None = None
    rejected: tuple[Rejection, ...] = ()
    stray: Stray = NO_STRAY
    copy_key: pa.Array | None = None  # values of `io.arrow.copy_keys`


def evenly_spaced(items: Sequence[Item], count: int) -> list[Item]:
    """`count` of the items, evenly spread, or all of them.

    >>> evenly_spaced("abcdefghij", 3)
    ['b', 'f', 'i']
    """
    count = min(count, len(items))
    return [items[(2 * place + 1) * len(items) // (2 * count)] for place in range(count)]


class KnownTexts(NamedTuple):
    """Texts of parts that are held in memory and need not be decoded."""

    columns: Columns
    texts: Callable[[Part], list[pa.Array] | None]  # None if they are not held


class WriteOptions(TypedDict, total=False):
    """Options of writing kept rows."""

    known: KnownTexts
    limit: Limit | None  # a row with more in its other columns than it allows is a LargeDocumentError
    codec: OutputCodec | None  # None: the input's codec at its default level
    added: AddedColumns | None  # columns written after the columns of the file
    cuts: Cuts | None  # spans of texts to leave out
    large_texts: bool  # whether a text is known to have LARGE_TEXT bytes or more
    typed: Mask  # rows whose values decide the types of columns without a type; otherwise the kept rows


class Format(ABC):
    """Reads and writes the files of one kind. Every error names the file."""

    compression: Compression = ""
    natural_id: str | None = None  # the default for --id-column

    def check(self, file: File, columns: Columns) -> None:
        """An InputError if the head of a file shows that it cannot be used; by default, if its `parts` do."""
        self.parts(file, columns)

    @abstractmethod
    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """The rows in order; with `wanted` [rows], only texts are read, and other rows may be null.

        A bad record is a DamagedInputError or an InputTypeError. With `rules.skip` it is rejected, and an error means
        that no later row can be read. A document beyond `rules.limit` is an InputError.
        """

    def parts(self, file: File, columns: Columns) -> list[Part] | None:
        """All parts, in order, for threads to read; None if the format has none. InputError for an unusable file."""
        return None

    def takes_seek_points(self, file: File) -> bool:
        """Whether seek points would give the file parts."""
        return False

    def find_seek_points(self, file: File, least: int, advance: Callable[[int], None]) -> tuple[SeekPoint, ...]:
        """Seek points of a file that takes them, about `least` bytes apart; `advance` gets the bytes that were read."""
        return (FIRST,)

    def column_type(self, file: File, column: str) -> pa.DataType | None:
        """The column's pyarrow.DataType; None if the format declares none."""
        return None

    @abstractmethod
    def values(self, file: File, column: str, rows: Numbers) -> pa.Array:
        """The column's values at `rows`, ascending, as a pyarrow.Array."""

    def value_runs(self, file: File, column: str, counts: Iterable[int]) -> Iterator[pa.Array]:
        """`values` of the next so many rows, for each of `counts`; a file without parts is read once."""
        start = 0
        for count in counts:
            yield self.values(file, column, np.arange(start, start + count))
            start += count

    def row_begins(self, file: File) -> Iterator[tuple[int, int]]:
        """Rows, from the first on, each with the byte where it begins, if the rows from there on can be read alone.

        A reader also needs the bytes before the first row. By default no row can be read so.
        """
        return iter(())

    def place(self, file: File, row: int) -> str:
        """How a message names a row of the file."""
        return f"row {row}"

    def takes_codec(self, codec: OutputCodec) -> bool:
        """Whether `write_kept` can compress a file so."""
        return False

    @abstractmethod
    def write_kept(self, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]) -> None:
        """Write a file, which `target` opens, of the same format with the rows where `keep` [rows] is true."""

    @abstractmethod
    def kept_batches(self, file: File, keep: Mask, **how: Unpack[WriteOptions]) -> Iterator[pa.RecordBatch]:
        """All columns of the rows where `keep` [rows] is true, for a file of another format.

        They come as non-empty pyarrow.RecordBatch of one schema. Text without a column is called "text".
        """

    @abstractmethod
    def write_sample(self, file: File, share: float, target: NewFile) -> float:
        """Write about a `share` of the rows, from 0 to 1, to a file of the same format and compression.

        They come from all over the file where it has parts, otherwise from its beginning, and are at least one row.
        Returns the share of the file that was written.
        """


@dataclass
class RowCounter:
    """Rows of `keep` read so far."""

    keep: Mask
    rows: int = 0

    def next(self, count: int) -> Mask:
        """Read `count` rows: bool [count], which of them are kept. Rows after its end are not."""
        stays = self.keep[self.rows : self.rows + count]
        self.rows += count
        return stays if len(stays) == count else np.append(stays, np.zeros(count - len(stays), np.bool_))


@contextmanager
def counting_rows(file: File, keep: Mask, first: int = 0) -> Iterator[RowCounter]:
    """A context that reads and counts rows from the `first` on: `wrong_row_count` unless there are as many as in
    `keep`. Damage behind the last of them is ignored.
    """
    read = RowCounter(keep, first)
    try:
        yield read
    except DamagedInputError:
        if read.rows != len(keep):
            raise
    if read.rows != len(keep):
        raise wrong_row_count(file)
