"""Plain text: a file is one document."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Unpack

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.errors import InputError
from gpulsh.io.arrow.texts import BYTES, as_strings, stray
from gpulsh.io.columns import Columns
from gpulsh.io.compression.streams import HEAD, refuse_packed
from gpulsh.io.file import File, reading, wrong_length
from gpulsh.io.format import STRICT, Block, Mask, Rules, Writing, counting
from gpulsh.io.formats.streamed import UTF16, Streamed, utf16
from gpulsh.io.limits import Limit, too_large
from gpulsh.io.rows import Bytes, piece_rows

LOOKED_AT = 1 << 16  # bytes of a file's beginning
STEP = 1 << 20  # bytes read at once
COPIED = 1 << 16  # bytes copied at once: memory for more is taken from the system, and returned, for each file


class PlainText(Streamed):
    """Files of one row and no column but the text."""

    def check(self, file: File, columns: Columns) -> int | None:
        """Refuse another column than the text."""
        for name in (columns.key, columns.id):
            if name is not None:
                raise InputError(f"{file.name}: is plain text and has no column {name!r}; give Parquet or JSON lines")
        return self._size(file)

    def beginning(self, file: File) -> bytes:
        """Some bytes that the text begins with."""
        with reading(file), file.open() as source:
            return next(self._blocks(file, source, None, LOOKED_AT), b"")

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """One block of one row."""
        limit = rules.limit
        with reading(file), file.open() as source:
            if limit is not None:
                size = self._size(file)
                if size is None:  # neither a compressed file nor each store tells it
                    size = sum(map(len, self._blocks(file, source, limit, STEP)))
                if size > limit.document:
                    raise too_large(file, "", size, limit)
                source.seek(0)
            if self.compression:
                whole = bytearray()
                for block in self._blocks(file, source, limit, STEP):
                    whole += block
                text: bytes | memoryview = memoryview(whole)
            else:
                text = source.read()
                refuse_packed(bytes(text[:HEAD]))
            if text[:2] in UTF16:
                raise utf16(file)
            yield self._document(0, text)

    def _document(self, row: int, text: Bytes) -> Block:
        """A block of one row."""
        offset = pa.array([0, len(text)], pa.int64()).buffers()[1]
        found = stray(pa.Array.from_buffers(BYTES, 1, [None, offset, pa.py_buffer(text)]), self.encoding)
        if self.encoding is not None:
            text = bytes(text).decode(self.encoding, "replace").encode()
        return Block(row, piece_rows([text]), stray=found)

    def values(self, file: File, column: str, rows: Numbers, limit: Limit | None = None) -> pa.Array:
        """Refuse: plain text has no column."""
        raise InputError(f"{file.name}: is plain text and has no column {column!r}")

    def write_kept(self, file: File, keep: Mask, target: str, **how: Unpack[Writing]) -> None:
        """The file, byte for byte; none where the document is dropped, for an empty one would be another document."""
        if len(keep) != 1:
            raise wrong_length(file)
        if keep[0]:
            with reading(file):
                source = file.open()
            with source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, COPIED)

    def kept(self, file: File, keep: Mask, **how: Unpack[Writing]) -> Iterator[pa.RecordBatch]:
        """A column, "text"."""
        with counting(file, keep) as read:
            for block in self.read(file, Columns("text"), rules=Rules(limit=how.get("limit"))):
                texts = block.texts
                del block
                pieces = texts.pieces(np.flatnonzero(keep[read.rows : read.rows + len(texts)]))
                read.rows += len(texts)
                if pieces:
                    yield pa.record_batch([as_strings(pa.array(pieces, pa.large_binary()))], names=["text"])
                del texts, pieces

    def write_sample(self, file: File, share: float, target: str) -> float:
        """All of it, which is one row."""
        self.write_kept(file, np.ones(1, np.bool_), target)
        return 1.0
