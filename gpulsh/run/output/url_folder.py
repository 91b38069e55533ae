"""A folder behind a URL: its files are read and written whole, by their names below it."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gpulsh.errors import GpulshError, OutputError
from gpulsh.facts import Facts
from gpulsh.io.file import File, first_line, missing_package


class UrlFolder:
    """Whatever goes wrong is an OutputError: a storage service's own exceptions share no base."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        with self.reached():
            import fsspec

            self._filesystem, path = fsspec.core.url_to_fs(self.url)
            self._path: str = path.rstrip("/")

    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        found = self._filesystem.protocol
        return not {"file", "local"}.isdisjoint((found,) if isinstance(found, str) else found)

    def names(self) -> set[str]:
        """What is there."""
        with self.reached():
            self._filesystem.invalidate_cache()
            if self._filesystem.isfile(self._path):
                raise OutputError(f"{self.url}: is a file; give a folder")
            try:
                found = self._filesystem.find(self._path)
            except FileNotFoundError:
                return set()
        return {posixpath.relpath(path, self._path) for path in found if not path.endswith("/")}

    def file(self, name: str) -> File:
        """A file there, whether it is there or not."""
        return File(f"{self.url}/{name}", name, f"{self._path}/{name}", self._filesystem)

    def is_there(self, name: str) -> bool:
        """Whether there is a file of that name."""
        with self.reached(name):
            return bool(self._filesystem.exists(self.file(name).path))

    def read(self, name: str) -> Facts:
        """What a file of JSON tells; empty where there is none, or no JSON in it."""
        content = b""
        with self.reached(name), suppress(FileNotFoundError):
            content = self._filesystem.cat_file(self.file(name).path)
        with suppress(ValueError, RecursionError):
            found = json.loads(content)
            return found if isinstance(found, dict) else {}
        return {}

    def put(self, name: str, file: Path) -> None:
        """Write a local file there."""
        with self.reached(name):
            self._filesystem.put_file(str(file), self.file(name).path)

    def remove(self, names: Sequence[str]) -> None:
        """Remove those of the files that are there."""
        for name in names:
            with self.reached(name), suppress(FileNotFoundError):
                self._filesystem.rm_file(self.file(name).path)

    @contextmanager
    def reached(self, name: str = "") -> Iterator[None]:
        """Turn whatever goes wrong inside with the file of that name into an OutputError."""
        try:
            yield
        except GpulshError:
            raise
        except Exception as error:
            at = f"{self.url}/{name}".rstrip("/")
            told = missing_package(self.url) or f"{at}: cannot be reached or written: {first_line(error)}"
            raise OutputError(told) from error
