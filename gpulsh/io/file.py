"""One input file, and what is said of it when it cannot be read or is another than before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, BinaryIO

import pyarrow as pa

from gpulsh.errors import ChangedInputError, DamagedInputError, Extra, GpulshError, InputError, install
from gpulsh.memory_limit import lacks_memory, out_of_memory

Stamp = list[int | str | None]  # of a file: its size, and what tells of its last change; as JSON has it
# What remote stores tell of a file that is another when it is written to.
VERSIONS: tuple[str, ...] = (
    *("ETag", "etag", "md5Hash", "Content-MD5", "blob_id", "generation", "VersionId"),
    *("LastModified", "last_modified", "Last-Modified", "updated", "mtime"),
)


# Of a URL's protocol: the package that opens it, and the extra that installs this.
PACKAGES: dict[str, tuple[str, Extra]] = {
    **dict.fromkeys(("s3", "s3a"), ("s3fs", "s3")),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gs")),
    **dict.fromkeys(("http", "https"), ("aiohttp", "http")),
    "hf": ("huggingface_hub", "hf"),
}


def missing_package(url: str) -> str | None:
    """What to say of a URL whose package is not installed; None of others."""
    for part in url.split("::"):
        known = PACKAGES.get(part.partition("://")[0])
        if known is not None and find_spec(known[0]) is None:
            return f"{url}: needs the package {known[0]}; {install(known[1])}"
    return None


@dataclass(frozen=True)
class File:
    """One input file: `name` as reports and messages call it, `relative` its path below `data/`."""

    name: str
    relative: str
    path: str
    filesystem: Any = None  # of fsspec; None for a local path
    source: str = ""  # the INPUT that named it
    lines: bool = False  # of a text file: each line is a document
    as_text: bool = False  # it is one text, whatever its name says
    delimiter: str | None = None  # of CSV and TSV; None: as the name says
    encoding: str | None = None  # of these and of text; None: UTF-8
    unit: str = "line"  # what messages call a record of it
    copied: bool = False  # from a stream, anew for each run
    intact_only: bool = False  # a compressed member is read when it is known to be intact, and passed over otherwise

    def open(self) -> BinaryIO:
        """The file for reading bytes."""
        if self.filesystem is None:
            return open(self.path, "rb")
        return self.filesystem.open(self.path, "rb")  # type: ignore[no-any-return]

    def size(self) -> int | None:
        """Bytes of the file, None where a remote store does not tell."""
        with reading(self):
            return os.path.getsize(self.path) if self.filesystem is None else self.filesystem.size(self.path)

    def stamp(self) -> Stamp:
        """Size, time of change and inode, or a remote store's version: they differ when somebody wrote to the file."""
        with reading(self):
            if self.filesystem is None:
                found = os.stat(self.path)
                return [found.st_size, found.st_mtime_ns, None if self.copied else found.st_ino]
            self.filesystem.invalidate_cache(self.path)
            told = self.filesystem.info(self.path)
            version = [f"{name} {told[name]}" for name in VERSIONS if told.get(name) is not None]
            if not version:
                with suppress(NotImplementedError, AttributeError):
                    version.append(str(self.filesystem.modified(self.path)))
            return [told.get("size"), ", ".join(version) or None]

    def identity(self) -> tuple[object, ...] | None:
        """What a local file is now; None of others, which it takes long to ask."""
        return (self.path, *self.stamp()) if self.filesystem is None else None


@contextmanager
def reading(file: File) -> Iterator[None]:
    """Turn whatever goes wrong inside into an InputError that names the file, or a MemoryLimitError that does."""
    try:
        yield
    except GpulshError:
        raise
    except (OSError, EOFError, ValueError, MemoryError, pa.ArrowException) as error:
        if lacks_memory(error):
            raise out_of_memory(file.name) from error
        told = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        kind = DamagedInputError if _is_damage(error) else InputError
        raise kind(f"{file.name}: cannot be read: {first_line(told)}") from error


def first_line(told: object) -> str:
    """What an error of a library says in its first line, without the full stop; its type where it says nothing."""
    return (str(told).strip() or type(told).__name__).splitlines()[0].rstrip(".")


def reason(file: File, error: InputError) -> str:
    """The error's message without the file's name."""
    return error.message.removeprefix(f"{file.name}: ")


def _is_damage(error: Exception) -> bool:
    # A failing system or network says nothing about the content. Arrow reports broken pages by a bare OSError.
    if isinstance(error, OSError):
        return type(error) is OSError and not error.errno
    return not isinstance(error, pa.ArrowCancelled)


def changed(file: File, how: str) -> ChangedInputError:
    """The error of a file that was written to while a run read it."""
    return ChangedInputError(
        f"{file.name}: changed while it was read: it {how}; bring it back as it was, or begin again when nothing writes"
        " to it"
    )


def wrong_length(file: File) -> ChangedInputError:
    """The error of a file whose rows are not those of the first reading."""
    return changed(file, "holds other rows than at first")
