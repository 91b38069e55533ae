"""Files that are complete or absent, even after a power failure: write, fsync, rename, fsync of the folder."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from gpulsh.errors import GpulshError, OutputError

try:
    from zlib_ng.zlib_ng import crc32 as crc32_of
except ModuleNotFoundError:  # a source tree with CuPy and little else: the same checksums, in three times the time
    from zlib import crc32 as crc32_of

READ_AT_ONCE = 1 << 18  # bytes, which stay in a processor's cache until their checksum is known
MANY_FILES = 16  # files that one syncfs takes
REPORTS_ERRORS = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (5, 8)
PART_SUFFIX = ".part"  # how names of unfinished files end
LONGEST_NAME = 255  # bytes, of every file system in use


@dataclass(frozen=True, slots=True)
class FileFact:
    """Size and checksum of a file, to detect damage."""

    size: int  # bytes
    crc32: int


class ChecksummedFile(BufferedWriter):
    """A new file being written at `part`, with the checksum of its content so far; errors name it `path`."""

    def __init__(self, part: str | Path, path: str | Path, *, private: bool = False) -> None:
        self._path = path
        self._size = self._crc32 = 0
        super().__init__(FileIO(part, "xb", opener=partial(os.open, mode=0o600) if private else None))

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        self._crc32 = crc32_of(data, self._crc32)
        self._size += memoryview(data).nbytes
        with naming(self._path):  # here, because several files may be written in parallel
            return super().write(data)

    def close(self) -> None:
        """Write what is left in the buffer, and close the file."""
        with naming(self._path):
            super().close()

    def fact(self) -> FileFact:
        """Return the size and checksum of all that was written."""
        return FileFact(self._size, self._crc32)


@contextmanager
def durable_file(path: Path, *, private: bool = False) -> Iterator[ChecksummedFile]:
    """A new file, `private` to its owner if so, that appears and survives a crash when the context ends well."""
    with temporary_path(path) as part:
        with ChecksummedFile(part, path, private=private) as file:
            yield file
        sync(part, path)
        os.replace(part, path)
        sync(path.parent)


@contextmanager
def temporary_path(path: Path) -> Iterator[Path]:
    """A temporary name next to `path`, of this attempt alone, because a worker that was given up may still write, too.

    An attempt that fails leaves nothing.
    """
    own = f".{uuid4().hex}{PART_SUFFIX}"
    part = path.with_name((path.name if len(os.fsencode(path.name + own)) <= LONGEST_NAME else "") + own)
    try:
        with naming(path):
            yield part
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class DurableFiles:
    """A context that makes files durable together, because a disk syncs many files in hardly more time than one.

    An attempt that fails leaves nothing. The files' names survive a crash once their folders are synced.

    Many small files share one syncfs, where Linux reports its errors (5.8 and later). An fsync each takes most of the
    processor time of writing them. syncfs may wait for what other processes write to the file system.
    """

    def __init__(self, folder: Path) -> None:
        self._attempt = uuid4().hex
        self._parts: list[tuple[str, str, ChecksummedFile]] = []
        # Open before the files are written: errors from then on are reported.
        self._folder = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)

    def part(self, prefix: str, path: str) -> Callable[[], ChecksummedFile]:
        """A function that opens a file for the content of `path`; without a call, none is made.

        Its temporary name begins with `prefix`, on the same disk as `path`.
        """

        def open_part() -> ChecksummedFile:
            part = f"{prefix}.{self._attempt}{PART_SUFFIX}"
            made = ChecksummedFile(part, path)
            self._parts.append((part, path, made))
            return made

        return open_part

    def complete(self) -> dict[str, FileFact]:
        """Sync all files that were written, then rename them; their facts by path."""
        if len(self._parts) >= MANY_FILES and REPORTS_ERRORS:
            sync_file_system(self._folder)
        else:
            for part, path, _ in self._parts:
                sync(part, path)
        for part, path, _ in self._parts:
            os.replace(part, path)
        return {path: made.fact() for _, path, made in self._parts}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        os.close(self._folder)
        for part, *_ in self._parts if kind is not None else ():
            with suppress(FileNotFoundError):
                os.unlink(part)


def sync_file_system(handle: int) -> None:
    """Make all files of the file system that holds an open folder survive a crash."""
    if ctypes.CDLL(None, use_errno=True).syncfs(handle):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def rename_durably(part: Path, path: Path) -> FileFact:
    """Rename `part`, which others wrote, to `path`, on the same disk, so that it survives a crash; the file's fact."""
    sync(part, path)
    fact = fact_of(part)
    assert fact is not None
    os.replace(part, path)
    sync(path.parent)
    return fact


def sync(path: str | Path, called: str | Path | None = None) -> None:
    """Make the content of a file or folder survive a crash; an error names it `called`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(called or path):
            os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot sync a folder.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not os.path.isdir(path):
            raise
    finally:
        os.close(handle)


class naming:  # a class: contexts of contextlib take longer, and small files may be many
    """Add the file's name to errors inside, because the system does not name the file of a write or fsync."""

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.errno and error.filename is None and not isinstance(error, GpulshError):
            error.filename = str(self._path)


@contextmanager
def writing(path: str | os.PathLike[str], left: str = "") -> Iterator[None]:
    """Turn errors of the system inside into an OutputError with `path` and a remark, `left`."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise write_error(path, error, left) from error


def write_error(path: str | os.PathLike[str], error: OSError, left: str = "") -> OutputError:
    """The OutputError of an error at `path`, with a remark, `left`."""
    return OutputError(f"{os.fspath(path)}: cannot be written: {cause_of(error)}{left}")


def cause_of(error: OSError) -> str:
    """The system's words for an error, and what to do where a file system lacks a function."""
    cause = os.strerror(error.errno) if error.errno else str(error)
    lacks = error.errno in (errno.ENOSYS, errno.ENOTSUP, errno.ENODEV, errno.ENOLCK)
    return f"{cause}; give a folder on another file system" if lacks else cause


def fact_of(path: str | Path) -> FileFact | None:
    """The fact of a file on disk; None if no file has this name."""
    size = crc32 = 0
    try:
        with open_file(path) as file:
            room = max(min(os.fstat(file.fileno()).st_size, READ_AT_ONCE), 1)  # small files need no large buffer
            data = memoryview(bytearray(room))
            while read := file.readinto(data):
                size, crc32 = size + read, crc32_of(data[:read], crc32)
    except FileNotFoundError:
        return None
    return FileFact(size, crc32)


def open_file(path: str | Path) -> FileIO:
    """A file for reading, without a buffer; a FileNotFoundError also where a link, a folder or a pipe has its name."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    else:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return os.fdopen(handle, "rb", buffering=0)
        os.close(handle)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
