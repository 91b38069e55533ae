"""Plain text whose lines are documents: what `--lines` makes of a text file.

Every line is a row, empty ones too, so that row numbers follow line numbers; a last line without an end counts unless
it is empty. Kept lines are copied byte for byte with their ends. Lines are found a block at a time, without an object
for each. Of a compressed file that is damaged, nothing behind the damage is read: which line it is nobody knows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, Unpack

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import Advice, InputError
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.columns import Columns
from gpulsh.io.file import File, reading, wrong_length
from gpulsh.io.format import STRICT, Block, Mask, Rules, Writing, counting
from gpulsh.io.formats.streamed import UTF16, Beginning, utf16
from gpulsh.io.formats.text.plain import STEP, PlainText
from gpulsh.io.formats.whole_lines import LongLineError, whole_lines
from gpulsh.io.limits import Limit, check_sizes, too_large
from gpulsh.io.rows import piece_rows

NEWLINE = 10
LOOKED_AT = 1 << 16  # bytes of a file's beginning
MANY = 20  # lines there, not counting empty ones, that look as if each were a document
MOST_LOOKED_AT = 8  # files

_log = logging.getLogger("gpulsh")


class TextLines(PlainText):
    """Files whose rows are lines, with no column but the text."""

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """A block of the file at a time."""
        row = 0
        with reading(file), file.open() as source:
            for piece in self._pieces(file, source, rules.limit):
                if isinstance(piece, bytearray):  # one line
                    texts = piece_rows([memoryview(piece)[: len(piece) - piece.endswith(b"\n")]])
                else:
                    texts = arrow_rows(_texts(piece))
                check_sizes(file, row + 1, texts.lengths(), rules.limit, "line")
                yield Block(row, texts)
                row += len(texts)

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """Kept lines as they are."""
        with reading(file):
            source = file.open()
        with source, self._writer(target, how.get("packing")) as out, counting(file, keep) as read:
            for piece in self._pieces(file, source):
                ends = _ends(piece)
                stays = keep[read.rows : read.rows + len(ends)]
                if len(stays) != len(ends):
                    raise wrong_length(file)
                if stays.all():
                    out.write(memoryview(piece))
                elif stays.any():
                    sizes = np.diff(ends, prepend=0)
                    out.write(np.frombuffer(piece, np.uint8)[np.repeat(stays, sizes)].data)
                read.rows += len(ends)

    def write_sample(self, file: File, share: float, target: str) -> float:
        """The first lines."""
        with reading(file), file.open() as source, self._writer(target, None) as out:
            beginning = Beginning(file, source, share)
            for end, pieces in beginning.steps(self._pieces(file, beginning.source)):
                lines = b"".join(pieces)
                ends = _ends(lines)
                if rows := beginning.rows(len(ends), end):
                    out.write(memoryview(lines)[: int(ends[rows - 1])])
        return beginning.taken

    def _pieces(self, file: File, source: BinaryIO, limit: Limit | None = None) -> Iterator[bytes | bytearray]:
        """The content in pieces that end where a line does; a line that no block holds whole as a bytearray, alone."""
        number = 1
        with reading(file):
            try:
                most = None if limit is None else limit.document
                for pieces in whole_lines(self._blocks(file, source, limit, STEP), most):
                    for piece in pieces:
                        if number == 1 and piece.startswith(UTF16):
                            raise utf16(file)
                        if piece:
                            yield piece
                        number += piece.count(b"\n")
            except LongLineError as error:
                assert limit is not None
                raise too_large(file, f"line {number}", error.size(), limit) from None


def tell_of_lines(files: Sequence[File]) -> None:
    """Warn once that a text file is one document, if one of the first few begins like a list of documents."""
    for file in [file for file in files if file.path.lower().endswith(".txt")][:MOST_LOOKED_AT]:
        found: list[bytes] = []
        with suppress(InputError), reading(file), file.open() as source:  # who reads it says what is wrong
            found = source.read(LOOKED_AT).split(b"\n")
        lines = sum(bool(line.strip()) for line in found)
        if lines >= MANY:
            told = "is one document, though it has many lines, as is every .txt; with --lines each line is one"
            _log.warning(Advice(f"{file.name}: {told}"))
            return


def _ends(piece: bytes | bytearray) -> Numbers:
    """int64 [lines]: where each line ends, its newline included."""
    ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == NEWLINE) + 1
    return ends if len(ends) and ends[-1] == len(piece) else np.append(ends, len(piece))


def _texts(piece: bytes) -> pa.Array:
    """The lines of a piece without their ends, as a pyarrow.LargeBinaryArray."""
    content = np.frombuffer(piece, np.uint8)
    ends = _ends(piece)
    offset = np.zeros(len(ends) + 1, np.int64)
    offset[1:] = ends - np.arange(1, len(ends) + 1)
    values = content[content != NEWLINE]
    return pa.Array.from_buffers(pa.large_binary(), len(ends), [None, pa.py_buffer(offset), pa.py_buffer(values)])
