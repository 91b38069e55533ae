"""Files behind URLs: packages that open them, requests to their stores and web servers, and errors of these.

fsspec opens them. The exceptions of storage services share no base, and none of them is about the content of a file.
So any error here becomes an InputError with the name of the file.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from io import SEEK_SET, BufferedIOBase
from threading import Lock
from typing import Any, NamedTuple, TypeVar, cast

from gpulsh.errors import Extra, GpulshError, InputError, first_line, install_command
from gpulsh.memory_limit import is_out_of_memory, memory_error

_log = logging.getLogger("gpulsh")

REMOTE_BLOCK = 8 << 20  # bytes that fsspec reads ahead; s3fs by itself takes 50 MiB after each column of a row group
WEB = ("http://", "https://")
CACHES = ("simplecache", "filecache", "blockcache", "cached")  # of fsspec: parts of a URL that change no path
# For each protocol of URLs the package that opens it, and the extra that installs the package.
PACKAGES: dict[str, tuple[str, Extra]] = {
    **dict.fromkeys(("s3", "s3a"), ("s3fs", "s3")),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gs")),
    **dict.fromkeys(("http", "https"), ("aiohttp", "http")),
    "hf": ("huggingface_hub", "hf"),
}
# Fields of remote stores and archives that change when the file is written to.
VERSIONS: tuple[str, ...] = (
    *("ETag", "etag", "md5Hash", "Content-MD5", "blob_id", "generation", "VersionId", "CRC"),
    *("LastModified", "last_modified", "Last-Modified", "updated", "mtime"),
)
BUSY = frozenset((408, 429, 500, 502, 503, 504))  # the status of a web server that may answer the same request later
# Errors of aiohttp after a connection breaks, and our own. Others, as of a host that does not exist, will not pass.
BROKEN = frozenset(
    ("ClientPayloadError", "ClientOSError", "ClientConnectionResetError", "ServerDisconnectedError", "CutShort")
)
WAITS = 1, 2, 4, 8  # seconds before each further request
Result = TypeVar("Result")

_ONE_AT_A_TIME = Lock()  # fsspec reads all files of an archive by one handle, and threads would move its position


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
    """The error of a URL that cannot be opened."""
    return InputError(missing_package(url) or f"{url}: cannot be opened: {store_reason(error)}")


def store_reason(error: BaseException) -> str:
    """An error of a store or web server in one line."""
    status, words = getattr(error, "status", None), getattr(error, "message", "")
    if isinstance(status, int) and words:
        advice = "; give an address with its credentials, or download it first"
        return f"its server answered with status {status} {words}{advice if status in (401, 403) else ''}"
    if type(error).__name__ == "TooManyRedirects":
        return "its server redirects it again and again; download it first"
    found = first_line(error)
    if isinstance(error, FileNotFoundError) and " " not in found:  # the path alone
        return "no such file or folder"
    return f"{found}; known are s3, gs, hf, https and others of fsspec" if "Protocol not known" in found else found


class CutShort(Exception):
    """A download that is shorter than the size that its server states."""


class StoredFile(NamedTuple):
    """A file of a store: its name in messages, its path there, and the file system of fsspec."""

    name: str
    path: str
    filesystem: Any

    def size(self) -> int | None:
        """Bytes; None if the store does not know."""
        return cast("int | None", self.request(lambda: self.filesystem.size(self.path)))

    def stamp(self) -> list[int | str | None]:
        """Size and version, which change when the file is written to."""
        return self.request(self._stamp)

    def open(self) -> BufferedIOBase:
        """The file for reading."""
        from fsspec.archive import AbstractArchiveFileSystem

        turn = _ONE_AT_A_TIME if isinstance(self.filesystem, AbstractArchiveFileSystem) else nullcontext()
        with turn:
            return _OpenFile(self, turn, self.request(self._open))

    def request(self, call: Callable[[], Result]) -> Result:
        """The result of a call, made again while a web server is busy or breaks the connection; the clients of other
        stores do so themselves.
        """
        with self.reading():
            for wait in WAITS:
                try:
                    return call()
                except Exception as error:
                    status = getattr(error, "status", getattr(error.__cause__, "status", None))
                    is_broken = not BROKEN.isdisjoint(type(each).__name__ for each in (error, error.__cause__))
                    if status not in BUSY and not is_broken:
                        raise
                why = "broke the connection" if is_broken else f"answered with status {status}"
                _log.warning("%s: the server %s; the next request is in %d s", self.name, why, wait)
                time.sleep(wait)
            return call()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn every error inside into an InputError."""
        try:
            yield
        except GpulshError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise memory_error(self.name) from error
            cause: BaseException = error
            if error.args == (self.path,):  # fsspec tells no more, whatever a web server's error was
                cause = error.__cause__ or error
                if cause is error or getattr(cause, "status", None) in (404, 410):
                    cause = FileNotFoundError("no such file")
            why = store_reason(cause)
            if any(part in why for part in ("range requests", "Cannot seek")):
                why = f"its server sends it only as a whole; download it first, or give simplecache::{self.name}"
            elif why == self.path:  # aiohttp tells no more
                why = "not a valid web address"
            raise InputError(f"{self.name}: cannot be read: {why}") from cause

    def _stamp(self) -> list[int | str | None]:
        self.filesystem.invalidate_cache(self.path)
        found = self.filesystem.info(self.path)
        version = [f"{name} {found[name]}" for name in VERSIONS if found.get(name) is not None]
        if not version:
            with suppress(NotImplementedError, AttributeError):
                version.append(str(self.filesystem.modified(self.path)))
        return [found.get("size"), ", ".join(version) or None]

    def _open(self) -> Any:
        """The file of fsspec. A copy that a cache made of it is whole, or removed: the cache would give it again."""
        from fsspec.implementations.cached import WholeFileCacheFileSystem

        store, options = self.filesystem, {"mode": "rb", "block_size": REMOTE_BLOCK}
        if not isinstance(store, WholeFileCacheFileSystem):
            return store.open(self.path, **options)
        size = store.fs.size(self.path)
        try:
            opened = store.open(self.path, **options)
            found = os.fstat(opened.fileno()).st_size
            if size in (found, None):
                return opened
            opened.close()
            raise CutShort(f"its server states {size:,} bytes and sent {found:,}; try later, or download it first")
        except BaseException:
            with suppress(OSError):
                store.pop_from_cache(self.path)  # does nothing for simplecache
            with suppress(OSError):
                os.unlink(os.path.join(store.storage[-1], store._mapper(self.path)))
            raise


class _OpenFile(BufferedIOBase):
    """A file of a store, open for reading."""

    def __init__(self, file: StoredFile, turn: AbstractContextManager[object], opened: Any) -> None:
        self._file, self._turn, self._opened = file, turn, opened

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = -1 if size is None else size
        with self._turn:
            found = cast(bytes, self._file.request(lambda: self._opened.read(wanted)))
            end = getattr(self._opened, "size", None)
            if len(found) != wanted and end is not None and self.tell() < end:
                name = self._file.name
                raise InputError(
                    f"{name}: cannot be read: its server sends less of it than was requested; download it first, or"
                    f" give simplecache::{name}"
                )
            return found

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        with self._file.reading():
            self._opened.seek(offset, whence)  # which gives None for a web server that states no size
            return self.tell()

    def tell(self) -> int:
        return self._opened.tell()  # type: ignore[no-any-return]

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()
