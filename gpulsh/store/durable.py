"""Files that are there whole or not at all, whenever the power goes: write, fsync, rename, fsync of the folder."""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self
from uuid import uuid4

from gpulsh.errors import GpulshError, OutputError

READ_AT_ONCE = 8 << 20
SYNCED_AT_ONCE = 8  # files: whoever waits for a disk leaves the processor to others
PART = ".part"  # how names of unfinished files end


@dataclass(frozen=True)
class FileFact:
    """What tells a file from a damaged one."""

    size: int  # bytes
    crc32: int


class ChecksummedFile:
    """A file being written, with the checksum of what was."""

    closed = False

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._size = self._crc32 = 0

    def write(self, data: bytes | memoryview) -> int:
        """Write bytes, as a file does."""
        self._crc32 = zlib.crc32(data, self._crc32)
        self._size += memoryview(data).nbytes
        with naming(self._path):  # here, for several files may be written side by side
            return self._file.write(data)

    def tell(self) -> int:
        """Bytes written."""
        return self._size

    def flush(self) -> None:
        """Nothing is handed on before the end, where it is made durable."""

    def fact(self) -> FileFact:
        """Return the size and checksum of all that was written."""
        return FileFact(self._size, self._crc32)


@contextmanager
def durable_file(path: Path, *, private: bool = False) -> Iterator[ChecksummedFile]:
    """A new file at `path`, which appears when the context is left without an exception, and then survives a crash.

    A `private` one is for its owner alone.
    """
    with unfinished(path) as part:
        with open(part, "wb", opener=_private if private else None) as file:
            yield ChecksummedFile(file, path)
        put_in_place(part, path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o600)


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A name beside `path` for what will become it, of this attempt alone: two may write the same file at once, where a
    worker was given up and lives. An attempt that fails leaves nothing.
    """
    part = path.with_name(f"{path.name}.{uuid4().hex}{PART}")
    try:
        with naming(path):
            yield part
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class Together:
    """Files that others write, made durable together, for a disk syncs many at once in hardly more time than one.

    A context; an attempt that fails leaves nothing. The files' names survive a crash once their folders are synced.
    """

    def __init__(self) -> None:
        self._attempt = uuid4().hex
        self._parts: dict[Path, Path] = {}

    def part(self, beside: Path, path: Path) -> Path:
        """A name beside `beside`, on the same disk as `path`, for what will become `path`, if it is written."""
        part = beside.with_name(f"{beside.name}.{self._attempt}{PART}")
        self._parts[part] = path
        return part

    def complete(self) -> dict[Path, FileFact]:
        """Sync all files that were written, then rename them; their facts, read from them."""
        if len(self._parts) == 1:
            facts = list(map(_synced_fact, self._parts.items()))
        else:
            with ThreadPoolExecutor(SYNCED_AT_ONCE) as pool:
                facts = list(pool.map(_synced_fact, self._parts.items()))
        found = {}
        for (part, path), fact in zip(self._parts.items(), facts, strict=True):
            if fact is not None:
                with naming(path):
                    os.replace(part, path)
                found[path] = fact
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        for part in self._parts if kind is not None else ():
            part.unlink(missing_ok=True)


def _synced_fact(names: tuple[Path, Path]) -> FileFact | None:
    part, path = names
    with naming(path), suppress(FileNotFoundError), open_file(part) as file:
        os.fsync(file.fileno())
        return _fact(file)
    return None


def put_in_place(part: Path, path: Path) -> None:
    """Rename the finished file `part` to `path`, on the same disk; it then survives a crash."""
    sync(part, path)
    os.replace(part, path)
    sync(path.parent)


def completed(part: Path, path: Path) -> FileFact:
    """`put_in_place` a file that others wrote; its fact, read from it."""
    put_in_place(part, path)
    fact = fact_of(path)
    assert fact is not None
    return fact


def sync(path: Path, called: Path | None = None) -> None:
    """Make what a file or folder holds survive a crash; an error names it `called`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(called or path):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name this file in an error of the system inside: of a write or an fsync the system does not say which file."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None and not isinstance(error, GpulshError):
            error.filename = str(path)
        raise


@contextmanager
def writing(path: str | os.PathLike[str], left: str = "") -> Iterator[None]:
    """Whatever the system refuses inside is an OutputError that names `path`, and tells what is `left`."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise refused(path, error, left) from error


def refused(path: str | os.PathLike[str], error: OSError, left: str = "") -> OutputError:
    """What the system refused at `path`, and what is `left`, in one line."""
    told = os.strerror(error.errno) if error.errno else str(error)
    return OutputError(f"{os.fspath(path)}: cannot be written: {told}{left}")


def fact_of(path: Path) -> FileFact | None:
    """The fact of a file as it is on disk; None where it is not there, or no file has its name."""
    try:
        with open_file(path) as file:
            return _fact(file)
    except FileNotFoundError:
        return None


def _fact(file: BinaryIO) -> FileFact:
    size = crc32 = 0
    room = max(min(os.fstat(file.fileno()).st_size, READ_AT_ONCE), 1)  # memory for more would be asked for, and let go
    while data := file.read(room):
        size, crc32 = size + len(data), zlib.crc32(data, crc32)
    return FileFact(size, crc32)


def open_file(path: Path) -> BinaryIO:
    """A file for reading; a FileNotFoundError also where a link has its name, or a pipe that nobody writes to."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise FileNotFoundError(errno.ENOENT, "is a link", str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileNotFoundError(errno.ENOENT, "is no file", str(path))
    return os.fdopen(handle, "rb")
