"""How many bytes the body of an Arrow IPC message takes once Arrow has decoded it, known before it is read.

A compressed buffer begins with the size that it says it has, which Arrow allocates before it looks at more, and all
buffers of a batch are decoded together, of columns that nobody wants, too. Where they lie stands in the message's
metadata, a flatbuffer, of which only what leads there is read.

Format: https://arrow.apache.org/docs/format/Columnar.html (Message.fbs), https://flatbuffers.dev/internals
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.errors import DamagedInputError
from gpulsh.io.file import File
from gpulsh.io.limits import Limit, too_costly

Read = Callable[[int, int], memoryview]  # bytes at a place of a file, so many

CONTINUES = -1  # begins a message, before the length of its metadata
SHARE = 2  # of the budget, that a batch may take
LEAST = 24 << 20  # bytes of a batch that are always allowed
DICTIONARY, BATCH = 2, 3  # kinds of messages
KIND, HEADER, BODY = 1, 2, 3  # fields of a message
ID, DATA, DELTA = 0, 1, 2  # fields of a dictionary: which it is, the batch that holds it, whether it is added
BUFFERS, COMPRESSION = 2, 3  # fields of a batch
OLD_COMPRESSION = b"ARROW:experimental_compression"  # key in the metadata of messages that Arrow 0.17 wrote
WORST_RATIO = 1 << 16  # of content to its bytes: twice what Zstandard has for a run of one byte


class Bodies:
    """What Arrow reads of a file or stream behind its schema, each piece looked at before it is read."""

    def __init__(self, file: File, stream: bool, limit: Limit) -> None:
        self._file, self._stream, self._limit = file, stream, limit
        self._allowed = max(limit.memory // (SHARE * limit.abreast), LEAST)
        self._told = -1  # the length that was read last, of a stream's metadata
        self._message: _Message | None = None  # whose body is read next
        self._held: dict[int, int] = {}  # bytes of each dictionary
        self._all_held = 0

    def check_size(self, start: int, size: int) -> None:
        """LargeDocumentError where so many bytes do not fit, whatever they are."""
        if size > self._allowed:
            raise self._too_large(start, size)

    def check(self, start: int, size: int, read: Read, *, decoded: bool) -> None:
        """LargeDocumentError where `size` bytes at `start` are a body that does not fit once it is decoded.

        A body that is not `decoded` costs nothing.
        """
        if self._message is not None:
            message, self._message = self._message, None
            if decoded:
                self._check_body(message, start, size, read)
        elif not self._stream:
            first, second = struct.unpack("<ii", read(start, 8)) if size >= 8 else (0, 0)
            head, length = (8, second) if first == CONTINUES else (4, first)
            if 0 < length <= size - head and (decoded or length + head == size):
                message = _Message.of(self._file, bytes(read(start + head, length)))
                if length + head == size:
                    self._message = message if message.body > 0 else None
                else:
                    self._check_body(message, start + head + length, size - head - length, read)
        elif size == 4:
            (self._told,) = struct.unpack("<i", read(start, 4))
        elif size == self._told:
            self._told = -1
            message = _Message.of(self._file, bytes(read(start, size)))
            self._message = message if message.body > 0 else None

    def _check_body(self, message: _Message, start: int, size: int, read: Read) -> None:
        self.check_size(start, size)
        need = size
        if message.compressed:
            if size != message.body:
                raise _damaged(self._file, "the lengths of a record batch differ")
            for place, length in message.buffers.tolist():
                if length >= 8:
                    if place < 0 or place + length > size:
                        raise _damaged(self._file, "a buffer of a record batch is not in it")
                    (claimed,) = struct.unpack("<q", read(start + place, 8))
                    if claimed > length * WORST_RATIO:
                        raise _damaged(self._file, f"a buffer of {length} bytes says that it holds {claimed}")
                    need += max(claimed, 0)
        if message.dictionary is not None:
            before = self._held.get(message.dictionary, 0)
            self._held[message.dictionary] = need + (before if message.added else 0)
            self._all_held += self._held[message.dictionary] - before
            need = 0
        if need + self._all_held > self._allowed:
            raise self._too_large(start, need + self._all_held)

    def _too_large(self, start: int, need: int) -> Exception:
        return too_costly(self._file, f"the record batch at byte {start}", need, self._allowed, self._limit)


class _Message(NamedTuple):
    body: int  # bytes
    compressed: bool
    buffers: Numbers  # [buffers, 2]: where in the body each is, and its size
    dictionary: int | None = None  # which this is
    added: bool = False  # to what was read of it before

    @classmethod
    def of(cls, file: File, metadata: bytes) -> _Message:
        data, added, dictionary = _Flatbuffer(metadata), False, None
        try:
            message = data.follow(0)
            body, header = data.number("<q", data.field(message, BODY)), data.field(message, HEADER)
            kind = data.number("<B", data.field(message, KIND))
            batch = data.follow(header) if header and kind in (DICTIONARY, BATCH) else 0
            if batch and kind == DICTIONARY:
                dictionary = data.number("<q", data.field(batch, ID))
                added = bool(data.number("<B", data.field(batch, DELTA)))
                held = data.field(batch, DATA)
                batch = data.follow(held) if held else 0
            compressed = bool(batch) and bool(data.field(batch, COMPRESSION) or OLD_COMPRESSION in metadata)
            buffers = data.field(batch, BUFFERS) if compressed else 0
            places = data.pairs(data.follow(buffers)) if buffers else np.empty((0, 2), np.int64)
        except (struct.error, ValueError) as error:
            raise _damaged(file, "the metadata of a record batch") from error
        return cls(body, compressed, places, dictionary, added)


class _Flatbuffer:
    """Tables and vectors by their places in `content`; a struct.error or a ValueError where one is not in it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def number(self, kind: str, place: int) -> int:
        """A number, 0 where its field is absent."""
        if place < 0:
            raise ValueError("before the beginning")
        return int(struct.unpack_from(kind, self._content, place)[0]) if place else 0

    def follow(self, place: int) -> int:
        """Where the offset at a place leads."""
        return place + int(struct.unpack_from("<I", self._content, place)[0])

    def field(self, table: int, number: int) -> int:
        """The place of a field of a table, 0 where it is absent."""
        index = table - self.number("<i", table)
        if self.number("<H", index) < 6 + 2 * number:
            return 0
        offset = self.number("<H", index + 4 + 2 * number)
        return table + offset if offset else 0

    def pairs(self, vector: int) -> Numbers:
        """int64 [m, 2]: a vector of structs of two numbers."""
        return np.frombuffer(self._content, "<i8", 2 * self.number("<I", vector), vector + 4).reshape(-1, 2)


def _damaged(file: File, what: str) -> DamagedInputError:
    return DamagedInputError(f"{file.name}: cannot be read: it is damaged: {what}")
