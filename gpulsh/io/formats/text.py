"""Plain text: a file is one document, or with `--lines` each line is.

Every line is a row, empty ones too, so that row numbers follow line numbers; a last line without an end counts unless
it is empty. A line ends with \\n or \\r\\n, and its text does not include the end. Kept lines are copied byte for byte
with their ends. Lines are found a block at a time, without an object for each. In a damaged compressed file, gpulsh
reads nothing after the damage, because line numbers are unknown there.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from typing import BinaryIO, Unpack

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import Advice, InputError
from gpulsh.io.arrow.buffers import binary_array
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.arrow.texts import as_utf8, count_stray, strings_of
from gpulsh.io.columns import Columns
from gpulsh.io.compression import HEAD, refuse_compressed
from gpulsh.io.file import File, SeekPoint, reading, wrong_row_count
from gpulsh.io.format import NO_STRAY, STRICT, Block, Mask, Rules, WriteOptions, counting_rows
from gpulsh.io.formats.seek_points import find_seek_points
from gpulsh.io.formats.streamed import (
    UTF16,
    Beginning,
    Line,
    Streamed,
    line_begins,
    part_of,
    utf16_file,
    whole_lines,
)
from gpulsh.io.limits import Limit, check_sizes, too_large
from gpulsh.io.output_codec import NewFile
from gpulsh.io.rows import Bytes, piece_rows

CHECKED_BYTES = 1 << 16  # bytes of a file's beginning
STEP = 1 << 20  # bytes read at once
COPIED = 1 << 16  # bytes copied at once: memory for more is taken from the system, and returned, for each file
NEWLINE, RETURN = 10, 13
MANY = 20  # lines in it, empty ones aside, from which they look like documents
CHECKED_FILES = 8  # files
LARGE_FILE = 1 << 20  # bytes of a file, from which on few are one document

_log = logging.getLogger("gpulsh")


class PlainText(Streamed):
    """Files of one row and no column but the text."""

    def check(self, file: File, columns: Columns) -> None:
        """Check that only the text is requested, and no other column."""
        for name in columns.others():
            asked = f"{name!r}{columns.option_clause(name)}"
            raise InputError(f"{file.name}: is plain text and has no column {asked}; give Parquet or JSON lines")

    def beginning(self, file: File) -> bytes:
        """Some bytes that the text begins with."""
        with reading(file), file.open() as source:
            return next(self._blocks(file, source, CHECKED_BYTES), b"")

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """One block of one row."""
        most = None if rules.limit is None else rules.limit.document
        with reading(file), file.open(buffering=0) as source:
            text: bytes | memoryview
            if self.compression:
                whole, size = bytearray(), 0
                for block in self._blocks(file, source, STEP):
                    size += len(block)
                    if most is None or size <= most:  # a larger text is only counted
                        whole += block
                text = memoryview(whole)
            else:
                size = source.seek(0, os.SEEK_END)
                source.seek(0)
                text = b"" if most is not None and size > most else source.read()
                refuse_compressed(text[:HEAD])
            if rules.limit is not None and size > rules.limit.document:
                raise too_large(file, "", size, rules.limit)
            if text[:2] in UTF16:
                raise utf16_file(file)
            yield self._document(0, text)

    def _document(self, row: int, text: Bytes) -> Block:
        if self.encoding is None and isinstance(text, bytes) and text.isascii():
            return Block(row, piece_rows([text]))
        found = count_stray(binary_array(text, np.array([0, len(text)])), self.encoding)
        if self.encoding is not None:
            text = bytes(text).decode(self.encoding, "replace").encode()
        return Block(row, piece_rows([text]), stray=found)

    def values(self, file: File, column: str, rows: Numbers) -> pa.Array:
        """Raise InputError, as plain text has no column."""
        raise InputError(f"{file.name}: is plain text and has no column {column!r}")

    def write_kept(self, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]) -> None:
        """The file, byte for byte; none where the document is dropped, for an empty one would be another document."""
        if len(keep) != 1:
            raise wrong_row_count(file)
        cuts = how.get("cuts")
        if keep[0] and cuts is not None and len(cuts.row):
            with self._writer(target, None) as packed:
                for block in self.read(file, Columns("text"), rules=Rules(limit=how.get("limit"))):
                    packed.write(self._encoded(cuts.text(0, block.texts.pieces(np.zeros(1, np.int64))[0])))
        elif keep[0]:
            with file.open(buffering=0) as source, target() as out:
                shutil.copyfileobj(source, out, COPIED)

    def kept_batches(self, file: File, keep: Mask, **how: Unpack[WriteOptions]) -> Iterator[pa.RecordBatch]:
        """A column, "text"."""
        with counting_rows(file, keep) as read:
            for block in self.read(file, Columns("text"), rules=Rules(limit=how.get("limit"))):
                texts = block.texts
                del block
                stays = read.next(len(texts))
                if stays.any():
                    yield pa.record_batch([strings_of(texts.gather(np.flatnonzero(stays)))], names=["text"])
                del texts

    def write_sample(self, file: File, share: float, target: NewFile) -> float:
        """Copy the file, which is one row."""
        self.write_kept(file, np.ones(1, np.bool_), target)
        return 1.0


class TextLines(PlainText):
    """Files whose rows are lines, with no column but the text."""

    def takes_seek_points(self, file: File) -> bool:
        """Whether it is a plain local file."""
        return self._is_divisible(file)

    def find_seek_points(self, file: File, least: int, advance: Callable[[int], None]) -> tuple[SeekPoint, ...]:
        """Lines."""
        return tuple(point._replace(row=point.line - 1) for point in find_seek_points(file, least, advance))

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """A block of the file at a time."""
        file, first = part_of(file, rules.part)
        row = first.row
        with reading(file), file.open() as source:
            for piece in self._pieces(file, source, rules.limit, first.line):
                if isinstance(piece, bytearray):  # one line
                    block = self._document(row, memoryview(piece)[: len(piece) - _end_size(piece)])
                else:
                    found = _texts(piece)
                    bad = NO_STRAY if piece.isascii() else count_stray(found, self.encoding)
                    block = Block(row, arrow_rows(as_utf8(found, self.encoding)), stray=bad)
                check_sizes(file, row + 1, block.texts.lengths(), rules.limit, "line")
                row += len(block.texts)
                yield block

    def row_begins(self, file: File) -> Iterator[tuple[int, int]]:
        """All rows of a plain file."""
        if not self.compression:
            with file.open() as source:
                yield from enumerate(begin for begin, _ in line_begins(file, self._blocks(file, source, STEP)))

    def write_kept(self, file: File, keep: Mask, target: NewFile, **how: Unpack[WriteOptions]) -> None:
        """Kept lines as they are."""
        cuts = how.get("cuts")
        codec = how.get("codec")
        with file.open() as source, self._writer(target, codec) as out, counting_rows(file, keep) as read:
            for piece in self._pieces(file, source):
                start, ends = read.rows, _line_ends(piece)
                stays = read.next(len(ends))
                rows = start + np.flatnonzero(stays)
                if cuts is not None and (changed := cuts.changed(rows)).any():
                    begins = (ends - np.diff(ends, prepend=0))[stays]
                    places = zip(rows.tolist(), begins.tolist(), ends[stays].tolist(), changed, strict=True)
                    for row, begin, end, is_cut in places:
                        line = bytes(piece[begin:end])
                        text = line[: len(line) - _end_size(line)]
                        if is_cut:  # its spans are of its text as UTF-8
                            read_as = text.decode(self.encoding, "replace").encode() if self.encoding else text
                            line = self._encoded(cuts.text(row, read_as)) + line[len(text) :]
                        out.write(line)
                elif stays.all():
                    out.write(memoryview(piece))
                elif stays.any():
                    sizes = np.diff(ends, prepend=0)
                    out.write(np.frombuffer(piece, np.uint8)[np.repeat(stays, sizes)].data)

    def write_sample(self, file: File, share: float, target: NewFile) -> float:
        """The first lines."""
        with file.open() as source, self._writer(target, None) as out:
            beginning = Beginning(file, source, share)
            for lines in beginning.of(list[Line](BytesIO(piece).readlines()) for piece in self._pieces(file, source)):
                out.write(b"".join(lines))
        return beginning.taken

    def _pieces(
        self, file: File, source: BinaryIO, limit: Limit | None = None, number: int = 1
    ) -> Iterator[bytes | bytearray]:
        """The content in pieces of whole lines, the first of this number.

        A line that no block holds whole is a bytearray of its own.
        """

        def next_line() -> int:
            return number

        with reading(file):
            for begun, block in whole_lines(file, self._blocks(file, source, STEP), limit, next_line):
                if number == 1 and (begun or block).startswith(UTF16):
                    raise utf16_file(file)
                number += bool(begun) + int(np.count_nonzero(np.frombuffer(block, np.uint8) == NEWLINE))
                yield from filter(None, (begun, block))


def warn_of_lines(files: Sequence[tuple[File, PlainText]]) -> None:
    """Warn once that a text file is one document, if one of the first few begins like a list, or one is large."""
    for number, (file, kind) in enumerate(files):
        why = None
        with suppress(InputError):  # the reader reports the error
            size = file.size() if file.filesystem is None else None
            if number < CHECKED_FILES and sum(map(bool, map(bytes.strip, kind.beginning(file).split(b"\n")))) >= MANY:
                why = "though it has many lines"
            elif size is not None and size >= LARGE_FILE:
                why = f"though it has {size:,} bytes"
        if why is not None:
            _log.warning(Advice(f"{file.name}: is one document, {why}; with --lines each line is one"))
            return


def _line_ends(piece: bytes | bytearray) -> Numbers:
    """int64 [lines]: where each line ends, its newline included."""
    ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == NEWLINE) + 1
    return ends if len(ends) and ends[-1] == len(piece) else np.append(ends, len(piece))


def _end_size(line: bytes | bytearray) -> int:
    """Bytes of the line's end."""
    return 2 if line.endswith(b"\r\n") else int(line.endswith(b"\n"))


def _texts(piece: bytes) -> pa.Array:
    """The lines of a piece without their ends, as a pyarrow.LargeBinaryArray."""
    content, ends = np.frombuffer(piece, np.uint8), _line_ends(piece)
    offset, is_text = np.zeros(len(ends) + 1, np.int64), content != NEWLINE
    if b"\r\n" in piece:
        is_two = content[ends - 2] == RETURN  # of a line of one byte, this is the end of another line
        is_text[ends[is_two] - 2] = False
        offset[1:] = ends - np.cumsum(is_two + np.int64(1))
    else:
        offset[1:] = ends - np.arange(1, len(ends) + 1)
    return binary_array(content[is_text], offset)
