"""What the stages report of their progress; `run.display.progress` shows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Advance = Callable[[int], None]  # is told how much more is done


def untold(done: int) -> None:
    """Report to nobody."""


class Progress:
    """A listener, which shows nothing; others override what they show. Stages follow one another, never nested."""

    def stage(self, name: str, total: int | None, unit: str) -> AbstractContextManager[None]:
        """A stage begins (and ends with the context); `total` in `unit` ("B", "documents", "pairs") where known."""
        return nullcontext()

    def advance(self, amount: int) -> None:
        """`amount` more units of the current stage are done."""

    def count(self, *, documents: int = 0, size: int = 0, dropped: int = 0) -> None:
        """So many more documents, bytes of text and dropped documents passed the current stage.

        What the unit of the stage says already is not told again.
        """

    def done_before(self, amount: int, *, documents: int = 0, size: int = 0) -> None:
        """Tell how much of the work an earlier run did, which this one resumes: rates leave it out."""
