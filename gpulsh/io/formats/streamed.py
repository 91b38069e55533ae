"""What formats share that are one stream of bytes, plain or compressed, and are written as they were read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import BinaryIO, TypeVar, cast

from gpulsh.errors import DamagedInputError
from gpulsh.io.compression import Compression, blocks
from gpulsh.io.file import File, reading
from gpulsh.io.format import Format
from gpulsh.io.packing import Packing, Sink, packed_writer

STEP = 1 << 20  # bytes of a file that are split into rows together
CODECS: dict[Compression, str] = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # what such a file begins with, and none of UTF-8 does

Rows = TypeVar("Rows")


class Beginning:
    """Counts off the rows at the beginning of a stream that are a share of the file."""

    def __init__(self, file: File, source: BinaryIO, share: float) -> None:
        self._source, self._size = source, max(file.size() or 0, 1)
        self._wanted = share * self._size
        self._read = 0  # bytes of the file, of the steps whose rows were counted
        self.taken = 0.0

    @property
    def source(self) -> BinaryIO:
        """What to read the rows from, in small steps."""
        return cast(BinaryIO, self)

    def read(self, size: int) -> bytes:
        """As a file does, and may give less."""
        return self._source.read(min(size, STEP))

    def seek(self, place: int) -> int:
        """As a file does."""
        return self._source.seek(place)

    def tell(self) -> int:
        """As a file does."""
        return self._source.tell()

    def steps(self, groups: Iterable[Rows]) -> Iterator[tuple[int, list[Rows]]]:
        """All groups of rows that were found in one step, and where it ended in the file, up to the share's end."""
        for end, found in groupby(groups, lambda group: self._source.tell()):
            yield end, list(found)
            if self.taken and end >= self._wanted:
                return

    def rows(self, count: int, end: int) -> int:
        """How many of the next rows, all those of a step, belong to it."""
        if not count:
            return 0
        begun, self._read = self._read, end
        size = max(end - begun, 1)
        rows = min(max(math.ceil(count * (self._wanted - begun) / size), int(self.taken == 0)), count)
        self.taken = 1.0 if rows == count and end >= self._size else (begun + size * rows / count) / self._size
        return rows


class Streamed(Format):
    """Files whose bytes are read in order."""

    def __init__(self, compression: Compression = "", encoding: str | None = None) -> None:
        self.compression = compression
        self.encoding = encoding  # of its texts; None is UTF-8
        self._codec = CODECS.get(compression)

    def takes(self, packing: Packing) -> bool:
        """Whether it is a level of the file's own codec."""
        return packing.codec == self._codec and packing.level is not None

    def _size(self, file: File) -> int | None:
        """Return how many bytes of text to expect, where the file tells."""
        with reading(file):
            return None if self.compression else file.size()

    def _blocks(self, file: File, source: BinaryIO, step: int) -> Iterator[bytes]:
        """The content in blocks of at most `step`."""
        with reading(file):
            for block in blocks(source, self.compression, intact_only=file.intact_only):
                for start in range(0, len(block), step):
                    yield block[start : start + step]

    @contextmanager
    def _writer(self, target: str, packing: Packing | None) -> Iterator[Sink]:
        """For a file of the same compression."""
        level = packing.level if packing is not None and self.takes(packing) else None
        with packed_writer(target, self.compression, level) as out:
            yield out


def utf16(file: File) -> DamagedInputError:
    """The error of a file of UTF-16, whose bytes would be another text."""
    return DamagedInputError(f"{file.name}: is UTF-16; write it as UTF-8")
