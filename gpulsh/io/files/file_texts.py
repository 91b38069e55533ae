"""The documents of many files as one source: a pass in order, then a chosen few again."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Values
from gpulsh.errors import DamagedInputError
from gpulsh.io.arrow.rows import array_of, empty_rows
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, map_files, reason, wrong_row_count
from gpulsh.io.files.read_ahead import read_ahead
from gpulsh.io.files.rejected import Rejected, rejections
from gpulsh.io.format import BLOCK_BYTES, NO_STRAY, Block, OrderValues, Part, Rejection, Rules, Stray
from gpulsh.io.formats.endings import format_of
from gpulsh.io.limits import Limit
from gpulsh.io.rows import ROW_COST, Bytes, Rows, piece_rows, repack
from gpulsh.io.stamps import Stamps
from gpulsh.ragged import distinct, mask_of, offsets, row_of, run_bounds

if TYPE_CHECKING:
    import pyarrow as pa

OFFSET_BYTES, OBJECT_BYTES = 8, 48  # of a held row of an array, and of one that is an object, besides its text
BLOCK_COST, TEXT_COST = 1 << 10, 1 << 8  # bytes of a held block, and of a file held as one text, besides its rows
FIRST_ROW = np.zeros(1, np.int64)
FEW_ROWS = 64
AHEAD_BLOCKS = 2  # waiting blocks for each thread that reads
SPACING = 16 << 10  # least bytes from one seek point to the next: all between two is read for one text
MIN_BLOCK_BYTES = 1 << 20  # bytes of text that a thread decodes at once, however many share them

Item_contra = TypeVar("Item_contra", contravariant=True)
Blocks = list[tuple[int, Rows]]  # the texts of a piece, each block with its first row


class Piece(NamedTuple):
    """A file by its number, or a part of it."""

    file: int
    part: Part | None

    @property
    def start(self) -> int:
        """The first row of the piece in the file."""
        return self.part.start if self.part else 0


@dataclass(frozen=True)
class Partition:
    """Documents that are signed together."""

    number: int
    pieces: tuple[Piece, ...]


class Receiver(Protocol[Item_contra]):
    """A receiver of values, block by block."""

    def append(self, item: Item_contra, /) -> None:
        """Add the values of the next rows."""


@dataclass
class PartitionFacts:
    """Facts of the documents of a partition, complete once they were read."""

    sizes: list[Values] = field(default_factory=list)  # bytes of text, in integers of any type
    order: list[OrderValues] = field(default_factory=list)  # values of --keep COLUMN, by block
    copy_keys: Receiver[pa.Array] = field(default_factory=list)  # values of --key
    rows: dict[int, int] = field(default_factory=dict)  # by the number of the file
    nulls: int = 0
    bad: int = 0  # rejected rows, which are not among the nulls
    stray: Stray = NO_STRAY
    rejected: Receiver[pa.RecordBatch] = field(default_factory=list)  # of `gpulsh.io.files.rejected.rejections`

    @property
    def bytes(self) -> int:
        """Bytes of text so far."""
        return sum(int(sizes.sum()) for sizes in self.sizes)

    def place(self, partition: Partition, row: int) -> tuple[int, int]:
        """The number of the file, and the row in it, of a row of the partition."""
        before = partition.pieces[0].start
        for number, rows in self.rows.items():
            if row < rows:
                return number, before + row
            row, before = row - rows, 0
        raise IndexError(row)


class HeldTexts:
    """The texts of whole pieces of files, of at most `max_bytes` together, for later stages.

    To decode a file again takes as long as to sign it. Several threads may share it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._left: float = max_bytes
        self._begun: dict[Piece, Blocks] = {}
        # None: too large to hold. Files may be many and small: a file that is one text is held as that text alone.
        self._complete: dict[Piece, Blocks | bytes | None] = {}
        self._lock = Lock()

    def add(self, piece: Piece, start: int, texts: Rows) -> None:
        """The next rows of a piece, from row `start` of its file on; without room for them the piece is dropped.

        A piece may be read again: if it is whole it stays, and otherwise it starts over.
        """
        with self._lock:
            if piece in self._complete:
                return
            if piece in self._begun:
                last, before = self._begun[piece][-1]
                if start < last + len(before):  # a block without rows ends where it begins
                    self._release(piece)
            self._left -= _size(texts)
            self._begun.setdefault(piece, []).append((start, texts))
            if self._left < 0:
                self._release(piece)
                self._complete[piece] = None

    def complete(self, piece: Piece) -> None:
        """All rows of the piece were added."""
        with self._lock:
            blocks = self._begun.pop(piece, None)
            if blocks is None:
                return
            (start, texts), *more = blocks
            if more or start or len(texts) != 1 or array_of(texts) is not None:
                self._complete[piece] = blocks
            else:
                (text,) = texts.pieces(FIRST_ROW)
                self._complete[piece] = bytes(text)
                self._left += BLOCK_COST - TEXT_COST

    def find(self, piece: Piece) -> Blocks | None:
        """The texts of a piece; None where not all are held."""
        with self._lock:
            held = self._complete.get(piece)
        return [(0, piece_rows([held]))] if isinstance(held, bytes) else held

    def beginnings(self, places: Collection[tuple[int, int]], most: int) -> dict[tuple[int, int], bytes]:
        """By file and row, at most the first `most` bytes of each text that is held."""
        rows: dict[int, list[int]] = {}
        for number, row in places:
            rows.setdefault(number, []).append(row)
        with self._lock:
            pieces = [piece for piece in self._complete if piece.file in rows]
        return {
            (piece.file, row): bytes(texts.pieces(np.array([row - start]))[0][:most])
            for piece in pieces
            for start, texts in self.find(piece) or ()
            for row in rows[piece.file]
            if start <= row < start + len(texts)
        }

    def close(self) -> None:
        """Release everything, and hold nothing more."""
        with self._lock:
            self._begun.clear()
            self._complete.clear()
            self._left = -inf

    def _release(self, piece: Piece) -> None:
        self._left += sum(_size(texts) for _, texts in self._begun.pop(piece))


def texts_of_rows(file: File, text: str, rows: Numbers) -> Iterator[Bytes]:
    """The texts of the column `text` at ascending `rows` of a file, which is read only as far as needed."""
    for pieces in FileTexts([file], Columns(text)).read_rows(Piece(0, None), mask_of(rows, int(rows[-1]) + 1)):
        yield from pieces


class SeekTable:
    """Seek points of a file. It is read once to find them; then a text is read without the rows before it."""

    def __init__(self, file: File) -> None:
        rows, begins, after, size = array("q"), array("q"), 0, file.size()
        with suppress(DamagedInputError):  # it is after the last row
            for row, begin in format_of(file).row_begins(file) if size is not None else ():
                if begin >= after:
                    rows.append(row)
                    begins.append(begin)
                    after = begin + SPACING
        self._file, self._rows, self._begins = file, np.array(rows), np.append(begins, size or 0)

    def texts(self, text: str, rows: Numbers) -> Iterator[Bytes]:
        """The texts of the column `text` at ascending rows, as the file was when the table was made."""
        if not len(self._rows):
            return texts_of_rows(self._file, text, rows)
        number = row_of(self._rows, rows)
        used = distinct(number)
        before = offsets(np.diff(self._rows, append=self._rows[-1])[used])  # rows in the sections before each
        place = before[np.searchsorted(used, number)] + rows - self._rows[number]
        bounds = (self._begins[used].tolist(), self._begins[used + 1].tolist())
        head = (0, int(self._begins[0]))
        return texts_of_rows(replace(self._file, sections=(head, *zip(*bounds, strict=True))), text, place)


def _size(texts: Rows) -> int:
    return texts.size() + (OBJECT_BYTES if array_of(texts) is None else OFFSET_BYTES) * len(texts) + BLOCK_COST


class FileTexts:
    """Documents of `files`, one after another. It knows how many each file has once they were read.

    `readers` threads decode the parts of files that have parts, and hold `ahead` bytes together, or a few blocks each.
    With `skip`, bad records are null rows, and in `rejected`. A document beyond `limit` is a LargeDocumentError. `held`
    keeps the texts of pieces, while there is room, and `read_rows` takes them from there.
    """

    streams: object = None  # holds the copies of streams, which last as long as it

    def __init__(
        self,
        files: Sequence[File],
        columns: Columns,
        readers: int = 1,
        skip: bool = False,
        limit: Limit | None = None,
        stamps: Stamps | None = None,
        held: HeldTexts | None = None,
        ahead: int | None = None,
    ) -> None:
        self._ahead = ahead
        self._stamps = stamps
        self._held = held
        self.files = files
        self.columns = columns
        self.rejected = Rejected()
        self._readers, self._rules = readers, Rules(skip, limit)
        self._parts: dict[int, list[Part]] = {}  # of the files that have some, as far as they were looked at
        self._rows = np.zeros(len(files), np.int64)

    def __len__(self) -> int:
        return int(self._rows.sum())

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64 [files + 1]: position of each file's first row, and how many documents there are."""
        return offsets(self._rows)

    def unchanged(self) -> AbstractContextManager[None]:
        """ChangedInputError if a file is changed before the context is left."""
        return self._stamps.unchanged(range(len(self.files))) if self._stamps else nullcontext()

    def check(self, first: int = 0) -> int | None:
        """The bytes of text to expect from file `first` on; InputError if a head shows that one cannot be used."""
        total: int | None = 0
        for size in map_files(self._expected_size, range(first, len(self.files)), self.files):
            total = None if size is None or total is None else total + size
        return total

    def _expected_size(self, number: int) -> int | None:
        file = self.files[number]
        kind = format_of(file)
        try:
            if (parts := self._parts_of(number)) is not None:
                return sum(part.size for part in parts)
            kind.check(file, self.columns)
            return None if kind.compression else self._size_of(number)
        except DamagedInputError:
            if not self._rules.skip:  # the pass in order meets it again
                raise
            return None

    def _parts_of(self, number: int) -> list[Part] | None:
        """The parts of a file; with `skip` none where they cannot be read: reading the whole file reports the error."""
        if number not in self._parts:
            file = self.files[number]
            try:
                parts = format_of(file).parts(file, self.columns)
            except DamagedInputError:
                if not self._rules.skip:
                    raise
                parts = None
            if parts is None:
                return None
            self._parts[number] = parts
        return self._parts[number]

    def _size_of(self, number: int) -> int | None:
        """Bytes of a file, where its storage reports them."""
        size = self._stamps.known[number][0] if self._stamps else self.files[number].size()
        return size if isinstance(size, int) else None

    def partitions(self, target_bytes: int, first: int = 0, max_rows: float = inf) -> list[Partition]:
        """All documents from file `first` on, in runs of about `target_bytes` of text that are read by themselves.

        A run has at most `max_rows` documents, or one piece. Pieces whose rows are unknown do not count.
        """
        found: list[Partition] = []
        pieces: list[Piece] = []
        size = rows = 0
        for piece, added in self._pieces(first):
            more = piece.part.rows if piece.part else 0
            if pieces and (size + added > target_bytes or rows + more > max_rows):
                found.append(Partition(len(found), tuple(pieces)))
                pieces, size, rows = [], 0, 0
            pieces.append(piece)
            size += added
            rows += more
        return [*found, Partition(len(found), tuple(pieces))]

    def _pieces(self, first: int = 0) -> Iterator[tuple[Piece, int]]:
        for number in range(first, len(self.files)):
            parts = self._parts_of(number)
            if parts is None:
                yield Piece(number, None), self._size_of(number) or 0
            for part in parts or ():
                yield Piece(number, part), max(part.size, ROW_COST * part.rows // 4)

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        """All documents once, in order; a batch stays below `max_bytes` unless one document alone is larger."""
        self._rows[:] = 0
        rejected: list[pa.RecordBatch] = []
        everything = PartitionFacts(rejected=rejected)
        yield from self.read([piece for piece, _ in self._pieces()], max_bytes, everything)
        self.add(everything)
        self.rejected = Rejected(rejected)

    def read(self, pieces: Sequence[Piece], max_bytes: int, facts: PartitionFacts) -> Iterator[TextBatch]:
        """The documents of `pieces`, as `batches` gives them; their facts go into `facts`."""
        return repack(self._slices(pieces, max_bytes, facts), max_bytes)

    def add(self, facts: PartitionFacts) -> None:
        """Add the rows of the next partition."""
        for number, rows in facts.rows.items():
            self._rows[number] += rows

    def _slices(self, pieces: Sequence[Piece], max_bytes: int, facts: PartitionFacts) -> Iterator[TextBatch]:
        # Here and below a block is released before the next one is read: each may be a document as large as allowed.
        last: Piece | None = None
        for piece, block in self._blocks(pieces, max_bytes):
            number = piece.file
            if self.columns.unread:  # some formats read them with the other columns
                block = replace(block, texts=empty_rows(len(block.texts)), stray=NO_STRAY)
            if piece != last:
                self._complete_piece(last)
                last = piece
            if self._held is not None:
                self._held.add(piece, block.start, block.texts)
            lengths = block.texts.lengths()
            if len(lengths) >= FEW_ROWS:  # the narrowest type: a file without parts may have millions
                kind = np.min_scalar_type(lengths.max(initial=0))
                lengths = lengths if kind == np.uint64 else lengths.astype(kind)  # not a float beside int64
            facts.sizes.append(lengths)
            bad = sum(rejection.rows for rejection in block.rejected)
            facts.nulls += 0 if self.columns.unread else block.texts.nulls() - bad
            facts.bad += bad
            facts.stray = Stray(facts.stray.rows + block.stray.rows, facts.stray.bytes + block.stray.bytes)
            if block.rejected:
                facts.rejected.append(rejections(number, block.rejected))
            if block.order is not None:
                facts.order.append(block.order)
            if block.copy_key is not None:
                facts.copy_keys.append(block.copy_key)
            facts.rows[number] = facts.rows.get(number, 0) + len(block.texts)
            yield from block.texts.slices(max_bytes)
            del block
        self._complete_piece(last)

    def _complete_piece(self, piece: Piece | None) -> None:
        if piece is not None and self._held is not None:
            self._held.complete(piece)

    def _blocks(self, pieces: Sequence[Piece], max_bytes: int) -> Iterator[tuple[Piece, Block]]:
        """All blocks in order, each with its piece."""
        # A block of half a batch becomes a batch without a copy.
        readers, block_bytes, ahead = self._readers, max(BLOCK_BYTES, max_bytes // 2), self._ahead
        if ahead is None:
            ahead = AHEAD_BLOCKS * readers * block_bytes
        else:
            readers = min(readers, max(ahead // ((1 + AHEAD_BLOCKS) * MIN_BLOCK_BYTES), 2))
            block_bytes = max(min(ahead // ((1 + AHEAD_BLOCKS) * readers), block_bytes), MIN_BLOCK_BYTES)
            ahead = max(ahead - readers * block_bytes, 0)  # besides the blocks being read

        def read(piece: Piece) -> Iterator[tuple[Piece, Block]]:
            file, rows = self.files[piece.file], piece.start
            rules = replace(self._rules, part=piece.part, block_bytes=block_bytes)
            try:
                for block in format_of(file).read(file, self.columns, rules=rules):
                    rows = block.start + len(block.texts)
                    yield piece, block
                    del block
            except DamagedInputError as error:
                if piece.part is not None or not rules.skip:
                    raise
                bad = Rejection(rows, 0, "row", rows, reason(file, error))
                yield piece, Block(rows, piece_rows([]), rejected=(bad,))

        def size(of: tuple[Piece, Block]) -> int:
            return of[1].texts.size()

        for divided, run in groupby(pieces, lambda piece: piece.part is not None):
            if divided and self._readers > 1:
                yield from read_ahead(run, read, size, readers, ahead)
            else:
                for piece in run:
                    yield from read(piece)

    def locate(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of the file and the row in it, int64 [m] each, of the documents at `positions`."""
        starts = self.starts
        files = row_of(starts, positions)
        return files, positions - starts[files]

    def read_rows(self, piece: Piece, wanted: NDArray[np.bool_]) -> Iterator[list[Bytes]]:
        """The texts of the `wanted` rows of a piece, bool [rows of the piece], block by block.

        They are read again unless they are held.
        """
        left = int(np.count_nonzero(wanted))
        with closing(self._blocks_of(piece, wanted)) as blocks:
            try:
                for start, texts in blocks:
                    here = np.flatnonzero(wanted[start - piece.start :][: len(texts)])
                    if len(here):
                        yield texts.pieces(here)
                        left -= len(here)
                    if left == 0:
                        break
                    del texts
            except DamagedInputError:
                if left:  # otherwise the damage is after the last wanted row
                    raise
        if left:
            raise wrong_row_count(self.files[piece.file])

    def _blocks_of(self, piece: Piece, wanted: NDArray[np.bool_]) -> Generator[tuple[int, Rows], None, None]:
        """The texts of a piece with at least the wanted rows, each block with its first row."""
        if self._held is not None and (held := self._held.find(piece)) is not None:
            yield from held
            return
        file, limit = self.files[piece.file], self._rules.limit
        rules = Rules(limit=limit) if piece.part is None else replace(self._rules, part=piece.part)
        for block in format_of(file).read(file, Columns(self.columns.text), wanted, rules):
            yield block.start, block.texts
            del block

    def values(self, column: str, positions: NDArray[np.int64]) -> list[pa.Array]:
        """The column at `positions`, ascending: one pyarrow.Array a file, in its own type."""
        files, rows = self.locate(positions)
        runs = ((self.files[files[start]], rows[start:stop]) for start, stop in run_bounds(files))
        return [format_of(file).values(file, column, wanted) for file, wanted in runs]

    def column_types(self, column: str) -> list[pa.DataType]:
        """The distinct types of the column, pyarrow.DataType, that files declare, but where no row of a file is known.

        It opens each file.
        """
        known = [file for at, file in enumerate(self.files) if self._rows[at] or not self.rejected.has_rejected(at)]
        kinds = {format_of(file).column_type(file, column): None for file in known}
        return [kind for kind in kinds if kind is not None]
