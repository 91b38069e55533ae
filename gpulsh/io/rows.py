"""Rows of text as the readers yield them, how they become batches of bounded size, and how stages read these.

`normalized` applies Unicode normalization to batches, when `Folding.form` asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers, TextBatch, on_host
from gpulsh.io.normal_form import PIECE_BYTES, normal_bytes, normal_pieces
from gpulsh.params import NormalForm
from gpulsh.ragged import concat_texts, offsets, row_ranges, total_size

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = bytes | memoryview
Copy = Callable[[NDArray[np.uint8], Numbers, Numbers], TextBatch]  # `Backend.gather` of one on the host

# Bytes that a document costs besides its text: a billion empty documents must not be one batch.
ROW_COST = 64
MIN_BATCH_ROWS = 1024  # a batch may have this many rows, whatever its size

_SURROGATE = re.compile("[\ud800-\udfff]")


def text_bytes(text: str) -> bytes:
    """The text in UTF-8; a lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


class Rows(Protocol):
    """Texts of one block of rows: a block of a file, or a chunk of an Arrow array.

    Adjacent texts have their own `gather` and `slices`, which copy less.
    """

    def __len__(self) -> int: ...

    def null_rows(self) -> NDArray[np.bool_]:
        """bool [n]: which rows are null."""

    def nulls(self) -> int:
        """How many rows are null."""
        return int(np.count_nonzero(self.null_rows()))

    def lengths(self) -> Numbers:
        """int64 [n]: UTF-8 bytes of each row, 0 where null."""

    def size(self) -> int:
        """UTF-8 bytes of all rows."""
        return int(self.lengths().sum())

    def pieces(self, rows: Numbers) -> list[Bytes]:
        """The texts at `rows`, in that order."""

    def gather(self, rows: Numbers, copy: Copy | None = None) -> TextBatch:
        """The texts at `rows`, in that order, copied together unless they are adjacent."""
        return join_texts(self.pieces(rows))

    def slices(self, max_bytes: int) -> Iterator[TextBatch]:
        """All rows in order, at most `max_bytes` a batch unless one row alone is larger."""
        for start, stop in batch_cuts(offsets(self.lengths()), max_bytes):
            yield self.gather(np.arange(start, stop))


class ChosenTexts(Protocol):
    """Documents that can be read in any order, any number of times; places and sizes are in one memory."""

    @property
    def sizes(self) -> Array:
        """int64 [chosen]: UTF-8 bytes of each document of the choice."""

    def take(self, places: Array, /) -> TextBatch:
        """The documents at `places` [m] of the choice, in that order, as a batch of their own."""


class Chosen(NamedTuple):
    """`ChosenTexts` that are gathered when they are taken."""

    sizes: Array
    take: Callable[[Array], TextBatch]


class TextSource(Protocol):
    """Documents in input order."""

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        """All documents once, in order; a batch stays below `max_bytes` unless one document alone is larger."""


def byte_values(content: Bytes | pa.Buffer | None) -> NDArray[np.uint8]:
    """The bytes as values of a batch; read-only, so that all batches have one type for a compiler."""
    values = np.frombuffer(content or b"", np.uint8)
    values.flags.writeable = False
    return values


def join_texts(pieces: Sequence[Bytes]) -> TextBatch:
    """A batch of separate texts, copied together. One text is not copied, because it may be large."""
    offset = np.array([0, *accumulate(map(len, pieces))], np.int64)  # fast, because small files may be many
    return TextBatch(byte_values(pieces[0] if len(pieces) == 1 else b"".join(pieces)), offset)


def gather_texts(values: NDArray[np.uint8], begin: Numbers, end: Numbers) -> TextBatch:
    """Texts `values[begin[i] : end[i]]` as a batch: a view if they are adjacent."""
    offset = offsets(end - begin)
    apart = np.flatnonzero(begin[1:] != end[:-1])
    if len(begin) and len(apart) == 0:
        return TextBatch(values, offset + begin[0])
    first, last = np.concatenate([begin[:1], begin[apart + 1]]), np.concatenate([end[apart], end[-1:]])
    data = values.data
    pieces = [data[start:stop] for start, stop in zip(first.tolist(), last.tolist(), strict=True)]
    return TextBatch(np.frombuffer(b"".join(pieces), np.uint8), offset)


def batch_cuts(offset: NDArray[np.signedinteger], max_bytes: int) -> Iterator[tuple[int, int]]:
    """Row ranges [start, stop) that cover all rows of `offset` [n + 1], each within the bounds of a batch."""
    return row_ranges(offset, max_bytes, max(MIN_BATCH_ROWS, max_bytes // ROW_COST))


def split_batch(batch: TextBatch, max_bytes: int) -> Iterator[TextBatch]:
    """The batch as views within the bounds."""
    for start, stop in batch_cuts(batch.offset, max_bytes):
        yield batch.slice(start, stop)


def repack(pieces: Iterable[TextBatch], max_bytes: int) -> Iterator[TextBatch]:
    """Join runs of batches smaller than a quarter of `max_bytes` up to the bounds."""
    max_rows = max(MIN_BATCH_ROWS, max_bytes // ROW_COST)
    held: list[TextBatch] = []
    size = count = 0
    for piece in pieces:
        added = total_size(piece)
        large = added * 4 >= max_bytes
        if held and (large or size + added > max_bytes or count + len(piece) > max_rows):
            yield concat_texts(held)
            held, size, count = [], 0, 0
        if large:
            yield piece
        else:
            held.append(piece)
            size, count = size + added, count + len(piece)
        del piece  # before the next one is read
    if held:
        yield concat_texts(held)


def piece_rows(texts: Sequence[Bytes | None]) -> Rows:
    """Rows held as separate byte strings, None where null."""
    return _PieceRows(texts)


class _PieceRows(Rows):
    def __init__(self, texts: Sequence[Bytes | None]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def null_rows(self) -> NDArray[np.bool_]:
        return np.array([text is None for text in self._texts], np.bool_)

    def lengths(self) -> Numbers:
        return np.array([len(text or b"") for text in self._texts], np.int64)

    def pieces(self, rows: Numbers) -> list[Bytes]:
        return [self._texts[row] or b"" for row in rows.tolist()]

    def slices(self, max_bytes: int) -> Iterator[TextBatch]:
        texts = [text or b"" for text in self._texts]
        if len(texts) <= MIN_BATCH_ROWS and sum(map(len, texts)) <= max_bytes:  # fast, because small files may be many
            return iter([join_texts(texts)])
        return super().slices(max_bytes)


def normalized(batch: TextBatch, form: NormalForm | None) -> TextBatch:
    """Each document in that form, with U+FFFD for invalid bytes; unchanged without a form, or if all is ASCII.

    A batch on a device that is not all ASCII comes back on the host.

    >>> import numpy as np
    >>> text = "e\u0301".encode()
    >>> bytes(
    ...     normalized(TextBatch(np.frombuffer(text, np.uint8), np.array([0, len(text)])), "NFC").values
    ... ).decode()
    'é'
    """
    if form is None:
        return batch
    first, last = int(batch.offset[0]), int(batch.offset[-1])
    if not (batch.values[first:last] >= 0x80).any():
        return batch
    batch = batch.moved(on_host)  # where the tables are
    data = batch.values.data
    pieces: list[Bytes] = []
    for start, stop in zip(batch.offset[:-1].tolist(), batch.offset[1:].tolist(), strict=True):
        if stop - start <= PIECE_BYTES:  # as nearly all: pieces would be copied once more
            pieces.append(normal_bytes(data[start:stop], form))
            continue
        whole = bytearray()
        for _, piece in normal_pieces(data[start:stop], form):
            whole += piece
        pieces.append(memoryview(whole))
    return join_texts(pieces)
