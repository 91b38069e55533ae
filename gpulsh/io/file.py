"""One input file, on a disk or in a store, and the errors of a file that cannot be read."""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from io import SEEK_SET, BufferedIOBase, BufferedReader, RawIOBase
from itertools import accumulate, islice
from operator import itemgetter
from threading import Lock
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import pyarrow as pa

from gpulsh.errors import ChangedInputError, DamagedInputError, Extra, GpulshError, InputError, install_command
from gpulsh.memory_limit import fitting_threads, is_out_of_memory, memory_error

_log = logging.getLogger("gpulsh")

Sections = tuple[tuple[int, int], ...]  # the first byte of each, and the one after its last
Stamp = list[int | str | None]  # of a file: its size, and its last change; JSON values
SHARED = 2  # values of a stamp that are the same for a copy, and on each node: some file systems number files by node
# Fields of remote stores and archives that change when the file is written to.
VERSIONS: tuple[str, ...] = (
    *("ETag", "etag", "md5Hash", "Content-MD5", "blob_id", "generation", "VersionId", "CRC"),
    *("LastModified", "last_modified", "Last-Modified", "updated", "mtime"),
)

REMOTE_BLOCK = 8 << 20  # bytes that fsspec reads ahead; s3fs by itself takes 50 MiB after each column of a row group
WEB = ("http://", "https://")
# For each protocol of URLs the package that opens it, and the extra that installs the package.
PACKAGES: dict[str, tuple[str, Extra]] = {
    **dict.fromkeys(("s3", "s3a"), ("s3fs", "s3")),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gs")),
    **dict.fromkeys(("http", "https"), ("aiohttp", "http")),
    "hf": ("huggingface_hub", "hf"),
}


def missing_package(url: str) -> str | None:
    """A message if the package that opens a URL is not installed; None otherwise."""
    for part in url.split("::"):
        known = PACKAGES.get(part.partition("://")[0])
        if known is not None and find_spec(known[0]) is None:
            return f"{url}: needs the package {known[0]}; {install_command(known[1])}"
    return None


def without_query(path: str) -> str:
    """The path of a file in a store, without a query or fragment if it is a web address.

    >>> without_query("https://site.org/a.jsonl?token=b/c"), without_query("bucket/a?.jsonl")
    ('https://site.org/a.jsonl', 'bucket/a?.jsonl')
    """
    return re.split("[?#]", path, maxsplit=1)[0] if path.startswith(WEB) else path


def cannot_open(url: str, error: Exception) -> InputError:
    """The error of a URL; a storage service's own exceptions share no base."""
    return InputError(missing_package(url) or f"{url}: cannot be opened: {store_reason(error)}")


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

    def open(self, buffering: int = -1) -> BinaryIO:
        """The file for reading bytes; for a local file, `buffering` is as in `open`."""
        if self.sections:
            whole = replace(self, sections=()).open(buffering=0)
            return BufferedReader(_SectionReader(whole, self.sections))
        if self.filesystem is not None:
            return cast(BinaryIO, _open_remote(self))
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
            return cast("int | None", _from_store(self, lambda: self.filesystem.size(self.path)))
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
            return _from_store(self, self._remote_stamp)
        with reading(self):
            found = os.stat(self.path)
            return [found.st_size, found.st_mtime_ns, None if self.copied else found.st_ino]

    def _remote_stamp(self) -> Stamp:
        self.filesystem.invalidate_cache(self.path)
        found = self.filesystem.info(self.path)
        version = [f"{name} {found[name]}" for name in VERSIONS if found.get(name) is not None]
        if not version:
            with suppress(NotImplementedError, AttributeError):
                version.append(str(self.filesystem.modified(self.path)))
        return [found.get("size"), ", ".join(version) or None]

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


@contextmanager
def _reading_remote(file: File) -> Iterator[None]:
    """Turn every error inside into an InputError with the name of the file: errors of a store share no base, and none
    of them is about the content.
    """
    try:
        yield
    except GpulshError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise memory_error(file.name) from error
        cause: BaseException = error
        if error.args == (file.path,):  # fsspec tells no more, whatever a web server's error was
            cause = error.__cause__ or error
            if cause is error or getattr(cause, "status", None) in (404, 410):
                cause = FileNotFoundError("no such file")
        why = store_reason(cause)
        if any(part in why for part in ("range requests", "Cannot seek")):
            why = f"its server sends it only as a whole; download it first, or give simplecache::{file.name}"
        elif why == file.path:  # aiohttp tells no more
            why = "not a valid web address"
        raise InputError(f"{file.name}: cannot be read: {why}") from cause


BUSY = frozenset((408, 429, 500, 502, 503, 504))  # the status of a web server that may answer the same request later
# Errors of aiohttp after a connection breaks. Others, as of a host that does not exist, will not pass.
BROKEN = frozenset(
    ("ClientPayloadError", "ClientOSError", "ClientConnectionResetError", "ServerDisconnectedError", "CutShort")
)
WAITS = 1, 2, 4, 8  # seconds before each further request
Result = TypeVar("Result")


def _from_store(file: File, request: Callable[[], Result]) -> Result:
    """The result of a request, made again while a web server is busy or breaks the connection; the clients of other
    stores do so themselves.
    """
    with _reading_remote(file):
        for wait in WAITS:
            try:
                return request()
            except Exception as error:
                status = getattr(error, "status", getattr(error.__cause__, "status", None))
                is_broken = not BROKEN.isdisjoint(type(each).__name__ for each in (error, error.__cause__))
                if status not in BUSY and not is_broken:
                    raise
            why = "broke the connection" if is_broken else f"answered with status {status}"
            _log.warning("%s: the server %s; the next request is in %d s", file.name, why, wait)
            time.sleep(wait)
        return request()


class CutShort(Exception):
    """A download that is shorter than the size that its server states."""


_ONE_AT_A_TIME = Lock()  # fsspec reads all files of an archive by one handle, and threads would move its position


class _Remote(BufferedIOBase):
    """A file of a store, open for reading. Any error of the store is an InputError."""

    def __init__(self, file: File, turn: AbstractContextManager[object], opened: Any) -> None:
        self._file, self._turn, self._opened = file, turn, opened

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        with self._turn:
            return cast(bytes, _from_store(self._file, lambda: self._opened.read(-1 if size is None else size)))

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        with _reading_remote(self._file):
            self._opened.seek(offset, whence)  # which gives None for a web server that states no size
            return self.tell()

    def tell(self) -> int:
        return self._opened.tell()  # type: ignore[no-any-return]

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()


def _open_remote(file: File) -> _Remote:
    from fsspec.archive import AbstractArchiveFileSystem

    turn = _ONE_AT_A_TIME if isinstance(file.filesystem, AbstractArchiveFileSystem) else nullcontext()
    with turn:
        opened = _from_store(file, lambda: _open_whole(file))
    return _Remote(file, turn, opened)


def _open_whole(file: File) -> Any:
    """The file of fsspec, open. A copy that a cache made of it is whole, or removed: the cache would give it again."""
    from fsspec.implementations.cached import WholeFileCacheFileSystem

    store, options = file.filesystem, {"mode": "rb", "block_size": REMOTE_BLOCK}
    if not isinstance(store, WholeFileCacheFileSystem):
        return store.open(file.path, **options)
    size = store.fs.size(file.path)
    try:
        opened = store.open(file.path, **options)
        found = os.fstat(opened.fileno()).st_size
        if size in (found, None):
            return opened
        opened.close()
        raise CutShort(f"its server states {size:,} bytes and sent {found:,}; try later, or download it first")
    except BaseException:
        with suppress(OSError):
            store.pop_from_cache(file.path)  # does nothing for simplecache
        with suppress(OSError):
            os.unlink(os.path.join(store.storage[-1], store._mapper(file.path)))
        raise


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


def first_line(error: object) -> str:
    """The first line of a library's error, without the full stop; its type where it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def store_reason(error: BaseException) -> str:
    """An error of a store or web server in one line."""
    status, words = getattr(error, "status", None), getattr(error, "message", "")
    if isinstance(status, int) and words:
        advice = "; give an address with its credentials, or download it first"
        return f"its server answered with status {status} {words}{advice if status in (401, 403) else ''}"
    if type(error).__name__ == "TooManyRedirects":
        return "its server redirects it again and again; download it first"
    found = first_line(error)
    return f"{found}; known are s3, gs, hf, https and others of fsspec" if "Protocol not known" in found else found


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
