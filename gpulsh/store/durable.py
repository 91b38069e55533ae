"""Files that are there whole or not at all, whenever the power goes: write, fsync, rename, fsync of the folder."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

READ_AT_ONCE = 8 << 20
PART = ".part"  # how names of unfinished files end


@dataclass(frozen=True)
class FileFact:
    """What tells a file from a damaged one."""

    size: int  # bytes
    crc32: int


class ChecksummedFile:
    """A file being written, with the checksum of what was."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = self._crc32 = 0

    def write(self, data: bytes | memoryview) -> int:
        """As a file's."""
        self._crc32 = zlib.crc32(data, self._crc32)
        self._size += memoryview(data).nbytes
        return self._file.write(data)

    def tell(self) -> int:
        """Bytes written."""
        return self._size

    def flush(self) -> None:
        """Nothing is handed on before the end, where it is made durable."""

    def fact(self) -> FileFact:
        """Of all that was written."""
        return FileFact(self._size, self._crc32)


@contextmanager
def durable_file(path: Path) -> Iterator[ChecksummedFile]:
    """A new file at `path`, which appears when the context is left without an exception, and then survives a crash."""
    with unfinished(path) as part:
        with open(part, "wb") as file:
            yield ChecksummedFile(file)
        put_in_place(part, path)


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A name beside `path` for what will become it, of this attempt alone: two may write the same file at once, where a
    worker was given up and lives. Of an attempt that fails nothing is left.
    """
    part = path.with_name(f"{path.name}.{uuid4().hex}{PART}")
    try:
        yield part
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def put_in_place(part: Path, path: Path) -> None:
    """The finished file `part` becomes `path`, on the same disk, and then survives a crash."""
    sync(part)
    os.replace(part, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """What the file or folder holds survives a crash from here on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fact_of(path: Path) -> FileFact | None:
    """The fact of a file as it is on disk; None where it is not there."""
    size = crc32 = 0
    try:
        with open(path, "rb") as file:
            while data := file.read(READ_AT_ONCE):
                size, crc32 = size + len(data), zlib.crc32(data, crc32)
    except FileNotFoundError:
        return None
    return FileFact(size, crc32)
