"""Whether the input files are the same as when the run began.

A run reads a file more than once: it signs it, compares some of its texts, takes its ids, copies its kept rows.
Decisions about one content must not be carried out on another. So each stage compares size, time of change and inode,
or what a remote store reports, before and after it reads a file. The run compares all before it publishes results.

Rejected: digests of the content. They also detect a changed file whose size and time were restored, but take time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from gpulsh.errors import ChangedInputError, InputError
from gpulsh.io.file import File, Stamp, changed_file, map_files

STAMPS_AT_ONCE = 32  # of remote files


class _StampTable(Sequence[Stamp]):
    """Stamps of many files, as numbers where they are of local files: a list of each would take 200 bytes."""

    def __init__(self, stamps: Iterable[Stamp]) -> None:
        self._numbers = array("q")
        self._others: dict[int, Stamp] = {}
        for number, stamp in enumerate(stamps):
            try:
                size, time, inode = stamp
                self._numbers.extend((size, time, inode))  # type: ignore[arg-type]
            except (TypeError, ValueError, OverflowError):  # of a store, of a stream, or with large numbers
                self._others[number] = stamp
                del self._numbers[3 * number :]
                self._numbers.extend((0, 0, 0))

    def __len__(self) -> int:
        return len(self._numbers) // 3

    def __getitem__(self, number: int) -> Stamp:  # type: ignore[override]
        if number in self._others:
            return self._others[number]
        if not 0 <= number < len(self):
            raise IndexError(number)
        return list(self._numbers[3 * number : 3 * number + 3])


@dataclass(frozen=True)
class Stamps:
    """The stamps of a run's files when it began, or the beginnings of stamps, whose rest may change."""

    files: tuple[File, ...]
    known: Sequence[Stamp]
    compared: int | None = None  # how many values of each stamp; None: all

    @classmethod
    def of(cls, files: Sequence[File]) -> Self:
        """The stamps of files now."""
        found = map_files(lambda number: files[number].stamp(), range(len(files)), files, STAMPS_AT_ONCE)
        return cls(tuple(files), _StampTable(found))

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
        wanted = range(len(self.files)) if numbers is None else dict.fromkeys(numbers)
        for _ in map_files(self._check, wanted, self.files, STAMPS_AT_ONCE):
            pass

    def _check(self, number: int) -> None:
        file, before = self.files[number], self.known[number][: self.compared]
        try:
            now = file.stamp()
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise changed_file(file, "is not there any more") from None
            raise
        if now[: len(before)] != before:
            same_size = now[0] == before[0]
            raise changed_file(file, "was written to" if same_size else f"had {before[0]} bytes and has {now[0]}")
