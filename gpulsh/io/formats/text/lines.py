"""Plain text whose lines are documents: what `--lines` makes of a text file.

A row is a line, an empty one too, so that rows count as lines do; what stands behind the last end of a line is one
where it is not empty. Kept lines are copied byte for byte with their ends. Lines are found a block at a time, without
an object for each; a line longer than a block is held once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.errors import InputError
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.format import (
    STRICT,
    Block,
    Columns,
    File,
    Limit,
    Mask,
    Rules,
    Writing,
    check_sizes,
    reading,
    too_large,
    wrong_length,
)
from gpulsh.io.formats.text.plain import PlainText
from gpulsh.io.rows import piece_rows

STEP = 1 << 20  # bytes read at once
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
            for piece in _whole_lines(file, source, rules.limit):
                if isinstance(piece, bytearray):  # one line
                    yield Block(row, piece_rows([_content(piece)]))
                    row += 1
                    continue
                texts = _texts(piece)
                offset = np.frombuffer(texts.buffers()[1], np.int64)
                check_sizes(file, row + 1, np.diff(offset), rules.limit, "line")
                yield Block(row, arrow_rows(texts))
                row += len(texts)

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """Kept lines as they are."""
        row = 0
        with reading(file):
            source = file.open()
        with source, open(target, "wb") as out:
            for piece in _whole_lines(file, source, None):
                ends = _ends(piece)
                stays = keep[row : row + len(ends)]
                if len(stays) != len(ends):
                    raise wrong_length(file)
                if stays.all():
                    out.write(piece)
                elif stays.any():
                    sizes = np.diff(ends, prepend=0)
                    out.write(np.frombuffer(piece, np.uint8)[np.repeat(stays, sizes)].data)
                row += len(ends)
        if row != len(keep):
            raise wrong_length(file)


def tell_of_lines(files: Sequence[File]) -> None:
    """Say once that a text file is one document, where the beginning of one of the first looks like a list of them."""
    for file in [file for file in files if file.path.lower().endswith(".txt")][:MOST_LOOKED_AT]:
        found: list[bytes] = []
        with suppress(InputError), reading(file), file.open() as source:  # who reads it says what is wrong
            found = source.read(LOOKED_AT).split(b"\n")
        lines = sum(bool(line.strip()) for line in found)
        if lines >= MANY:
            _log.warning(
                "%s: is one document, though it has many lines, as is every .txt; with --lines (Python: lines=True)"
                " each line is one",
                file.name,
            )
            return


def _whole_lines(file: File, source: BinaryIO, limit: Limit | None) -> Iterator[bytes | bytearray]:
    """The content in pieces that end where a line does; a line that no block holds whole as a bytearray, alone."""
    held = bytearray()
    number = 1  # of the line that is held or comes next
    with reading(file):
        block = source.read(STEP)
    while block:
        first = block.find(b"\n") + 1
        if held:
            held += block[: first or len(block)]
            if limit is not None and len(held) > limit.document + 1:
                rest = 0 if first else _rest(file, source)
                raise too_large(file, f"line {number}", len(_content(held)) + rest, limit)
            if first:
                yield held
                held, number = bytearray(), number + 1
            block = block[first:] if first else b""
        last = block.rfind(b"\n") + 1
        if last:
            yield block[:last]
            number += block.count(b"\n")
        if last < len(block):
            held = bytearray(block[last:])
        with reading(file):
            block = source.read(STEP)
    if held:
        if limit is not None and len(held) > limit.document:
            raise too_large(file, f"line {number}", len(held), limit)
        yield held


def _rest(file: File, source: BinaryIO) -> int:
    """Bytes up to the end of a line, which are only counted."""
    size = 0
    with reading(file):
        while block := source.read(STEP):
            end = block.find(b"\n")
            if end >= 0:
                return size + end
            size += len(block)
    return size


def _content(line: bytearray) -> memoryview:
    return memoryview(line)[: len(line) - line.endswith(b"\n")]


def _ends(piece: bytes | bytearray) -> NDArray[np.int64]:
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
