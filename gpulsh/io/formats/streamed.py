"""What formats share that are one stream of bytes, plain or compressed, and are written as they were read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from gpulsh.io.compression.packing import Packing, level_of_stream
from gpulsh.io.compression.streams import Compression, Sink, blocks, packed_writer
from gpulsh.io.compression.zstd import Window, WindowError
from gpulsh.io.format import File, Format, Limit, reading, too_large

CODECS: dict[Compression, str] = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}


class Streamed(Format):
    """Files whose bytes are read in order."""

    def __init__(self, compression: Compression = "") -> None:
        self.compression = compression
        self._codec = CODECS.get(compression)

    def takes(self, packing: Packing) -> bool:
        """Whether it is a level of the file's own codec."""
        return packing.codec == self._codec and packing.level is not None

    def _size(self, file: File) -> int | None:
        """Return how many bytes of text to expect, where the file tells."""
        with reading(file):
            return None if self.compression else file.size()

    def _blocks(self, file: File, source: BinaryIO, limit: Limit | None, step: int) -> Iterator[bytes]:
        """The content in blocks of at most `step`; a LargeDocumentError where a decoder holds more than is allowed."""
        window = Window() if limit is None else Window(limit.document)
        try:
            with reading(file):
                for block in blocks(source, self.compression, window, intact_only=file.intact_only):
                    for start in range(0, len(block), step):
                        yield block[start : start + step]
        except WindowError as error:
            assert limit is not None
            raise window_too_large(file, error, limit) from None

    @contextmanager
    def _writer(self, file: File, target: str, packing: Packing | None) -> Iterator[Sink]:
        """For a file of the same compression."""
        with packed_writer(target, self.compression, self._level(file, packing)) as out:
            yield out

    def _level(self, file: File, packing: Packing | None) -> int | None:
        """Return the level of the compression; None: its usual one."""
        if self._codec is None:
            return None
        if packing is not None and self.takes(packing):
            return packing.level
        with reading(file), file.open() as source:
            return level_of_stream(self._codec, source, file.size())


def window_too_large(file: File, error: WindowError, limit: Limit) -> Exception:
    """The error of a compressed stream whose decoder would hold too much."""
    return too_large(file, "the window of its compression", error.size, limit)
