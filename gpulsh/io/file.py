"""One input file, on a disk or behind a URL, and the errors of a file that cannot be read."""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from io import SEEK_SET, BufferedReader, RawIOBase
from itertools import accumulate, islice
from operator import itemgetter
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import pyarrow as pa

from gpulsh.errors import ChangedInputError, DamagedInputError, GpulshError, InputError, first_line
from gpulsh.io.urls import StoredFile, without_query
from gpulsh.memory_limit import fitting_threads, is_out_of_memory, memory_error

Sections = tuple[tuple[int, int], ...]  # the first byte of each, and the one after its last
Stamp = list[int | str | None]  # of a file: its size, and its last change; JSON values
SHARED = 2  # values of a stamp that are the same for a copy, and on each node: some file systems number files by node
IRREGULAR = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def irregular_kind(mode: int) -> str | None:
    """The kind of a path with this mode, other than a file or folder."""
    return None if stat.S_ISREG(mode) else next((kind for is_kind, kind in IRREGULAR if is_kind(mode)), None)


class SeekPoint(NamedTuple):
    """A place in a file of lines where a row begins, or the end of the file."""

    row: int
    line: int  # from 1
    byte: int


FIRST = SeekPoint(0, 1, 0)


@dataclass(frozen=True, slots=True)  # a run may have a million
class File:
    """One input file: `name` as reports and messages call it, `relative` its path below `data/`."""

    name: str
    relative: str
    path: str
    filesystem: Any = None  # of fsspec; None for a local path
    source: str = ""  # the INPUT that named it
    lines: bool = False  # each line of a text file is a document
    as_text: bool = False  # it is one text, with any ending
    delimiter: str | None = None  # of CSV and TSV; None: by the ending
    encoding: str | None = None  # of CSV, TSV and text; None: UTF-8
    unit: str = "line"  # the word for a record in messages
    copied: bool = False  # from a stream, again for each run
    intact_only: bool = False  # skip damaged members of compressed data
    # Of a large file of lines also later rows, and its end.
    seek_points: tuple[SeekPoint, ...] = field(default=(FIRST,), compare=False)
    sections: Sections = ()  # ranges of bytes: if given, only these are read, end to end

    @property
    def plain_path(self) -> str:
        """The path without the query of a web address: its end names the format."""
        return self.path if self.filesystem is None else without_query(self.path)

    @property
    def _stored(self) -> StoredFile:
        return StoredFile(self.name, self.path, self.filesystem)

    def open(self, buffering: int = -1) -> BinaryIO:
        """The file for reading bytes; for a local file, `buffering` is as in `open`."""
        if self.sections:
            whole = replace(self, sections=()).open(buffering=0)
            return BufferedReader(_SectionReader(whole, self.sections))
        if self.filesystem is not None:
            return cast(BinaryIO, self._stored.open())
        with reading(self):
            return open(self.path, "rb", buffering, opener=self._handle)

    def open_arrow(self) -> pa.NativeFile:
        """The file for pyarrow to read, which takes a path of type str to be UTF-8."""
        if self.filesystem is not None:
            return pa.PythonFile(self.open(), "r")
        os.close(self._handle(self.path))
        return pa.OSFile(os.fsencode(self.path))

    def _handle(self, path: str, flags: int = os.O_RDONLY) -> int:
        # To open a named pipe would wait for its writer, whatever the signal.
        handle = os.open(path, flags | os.O_NONBLOCK)
        if kind := irregular_kind(os.fstat(handle).st_mode):
            os.close(handle)
            raise InputError(f"{self.name}: is {kind}, not a regular file; put the file itself there")
        return handle

    def seek_point_before(self, row: int) -> SeekPoint:
        """The last seek point at or before a row."""
        return self.seek_points[bisect_right(self.seek_points, row, key=itemgetter(0)) - 1]

    def size(self) -> int | None:
        """Bytes of the file; None if a remote store does not know."""
        if self.filesystem is not None:
            return self._stored.size()
        with reading(self):
            return os.path.getsize(self.path)

    def exists(self) -> bool:
        """Whether the file exists. fsspec's `exists` is also false after an error of the store; this raises it."""
        try:
            self.size()
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return False
            raise
        return True

    def stamp(self) -> Stamp:
        """Size, time of change and inode, or a remote store's version: they change when the file is written to."""
        if self.filesystem is not None:
            return self._stored.stamp()
        with reading(self):
            found = os.stat(self.path)
            return [found.st_size, found.st_mtime_ns, None if self.copied else found.st_ino]

    def identity(self) -> tuple[object, ...] | None:
        """Path and stamp of a local file; None of a remote file, where a stamp takes long."""
        return (self.path, *self.stamp()) if self.filesystem is None else None


def real_paths() -> Callable[[str], str]:
    """`os.path.realpath` for many files: each folder is resolved once."""
    real_folder = cache(os.path.realpath)

    def real(path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        found = os.path.join(real_folder(folder), name)
        return os.path.realpath(found) if os.path.islink(found) else found

    return real


class reading:  # a class: a small file needs several, and contextlib's take longer
    """Turn errors inside into an InputError, or a MemoryLimitError, with the name of the file."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, GpulshError):
            return
        if isinstance(error, (OSError, EOFError, ValueError, MemoryError, pa.ArrowException)):
            if is_out_of_memory(error):
                raise memory_error(self._file.name) from error
            cause = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
            # An error of the system or network says nothing about the content. Arrow reports broken pages by a bare
            # OSError.
            of_system = isinstance(error, OSError) and bool(type(error) is not OSError or error.errno)
            raised = InputError if of_system or isinstance(error, pa.ArrowCancelled) else DamagedInputError
            raise raised(f"{self._file.name}: cannot be read: {first_line(cause)}") from error


class _SectionReader(RawIOBase):
    """The sections of an open file, end to end."""

    def __init__(self, source: BinaryIO, sections: Sections) -> None:
        self._source, self._sections, self._place = source, sections, 0
        self._offset = [0, *accumulate(stop - start for start, stop in sections)]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        number = bisect_right(self._offset, self._place) - 1
        if number == len(self._sections):
            return 0
        left = self._offset[number + 1] - self._place
        self._source.seek(self._sections[number][1] - left)
        found = self._source.read(min(left, len(buffer)))
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        self._place = (0, self._place, self._offset[-1])[whence] + offset
        return self._place

    def close(self) -> None:
        self._source.close()
        super().close()


def reason(file: File, error: InputError) -> str:
    """The error's message without the file's name."""
    return error.message.removeprefix(f"{file.name}: ")


def changed_file(file: File, how: str) -> ChangedInputError:
    """The error of a file that was written to while a run read it."""
    return ChangedInputError(
        f"{file.name}: changed while it was read: it {how}; restore it, or start again when nothing writes to it"
    )


def wrong_row_count(file: File) -> ChangedInputError:
    """The error of a file that has other rows than at the first reading."""
    return changed_file(file, "holds other rows than at first")


Result = TypeVar("Result")
HEADS_AT_ONCE = 8  # of remote files; each takes some REMOTE_BLOCK
MAX_WAITING = 1 << 10  # calls


def map_files(
    call: Callable[[int], Result], numbers: Iterable[int], files: Sequence[File], at_once: int = HEADS_AT_ONCE
) -> Iterator[Result]:
    """`call` of each file's number, in order; for remote files several run at once, as each waits for its store."""
    waiting = iter(numbers)
    with ThreadPoolExecutor(fitting_threads(at_once)) as pool:
        while some := list(islice(waiting, MAX_WAITING)):
            is_local = all(files[number].filesystem is None for number in some)
            yield from map(call, some) if is_local else pool.map(call, some)
