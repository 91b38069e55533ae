"""Change detection: whether a file is the same as when the run began.

A run reads a file more than once: it signs it, compares some of its texts, takes its ids, copies its kept rows.
Decisions about one content must not be carried out on another. So each stage compares size, time of change and inode,
or what a remote store reports, before and after it reads a file. The run compares all before it publishes results.

Rejected: digests of the content. They noticed a file whose size and time somebody had set back, and cost time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from gpulsh.errors import ChangedInputError, InputError
from gpulsh.io.file import File, Stamp, changed

ASKED = 32  # remote files at once


@dataclass(frozen=True)
class Stamps:
    """The stamps of a run's files when it began."""

    files: tuple[File, ...]
    known: tuple[Stamp, ...]

    @classmethod
    def of(cls, files: Sequence[File]) -> Self:
        """The stamps of files now."""
        return cls(tuple(files), tuple(file.stamp() for file in files))

    @contextmanager
    def unchanged(self, numbers: Iterable[int]) -> Iterator[None]:
        """ChangedInputError if one of these files has changed when the context is entered or left."""
        numbers = list(dict.fromkeys(numbers))
        self.check(numbers)
        try:
            yield
        except ChangedInputError:
            raise
        except Exception:
            self.check(numbers)  # a change explains more than the error that it caused
            raise
        self.check(numbers)

    def check(self, numbers: Iterable[int] | None = None) -> None:
        """ChangedInputError if one of the files, by default of all, has changed since the run began."""
        wanted = list(dict.fromkeys(range(len(self.files)) if numbers is None else numbers))
        remote = [number for number in wanted if self.files[number].filesystem is not None]
        for number in wanted:
            if self.files[number].filesystem is None:
                self._check(number)
        if remote:
            with ThreadPoolExecutor(ASKED) as pool:
                for _ in pool.map(self._check, remote):
                    pass

    def _check(self, number: int) -> None:
        file, before = self.files[number], self.known[number]
        try:
            now = file.stamp()
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise changed(file, "is not there any more") from None
            raise
        if now != before:
            same_size = now[0] == before[0]
            raise changed(file, "was written to" if same_size else f"had {before[0]} bytes and has {now[0]}")
