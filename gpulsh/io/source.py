"""How stages read documents, wherever they lie: all once, in order, then a chosen few again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from gpulsh.arrays import Numbers, TextBatch


class ChosenTexts(Protocol):
    """Documents that can be read in any order, any number of times."""

    def take(self, places: Numbers) -> TextBatch:
        """The documents at `places` [m] of the choice, in that order, as a batch of their own."""

    def sizes(self) -> Numbers:
        """int64 [chosen]: UTF-8 bytes of each document of the choice."""


class TextSource(Protocol):
    """Documents in input order."""

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        """All documents once, in order; a batch stays below `max_bytes` unless one document alone is larger."""

    def nulls(self) -> int:
        """How many documents were null; complete after `batches` is exhausted."""


class TextsReadAgain(TextSource, Protocol):
    """Documents of which some are read again."""

    def choose(self, ids: Numbers) -> ChosenTexts:
        """The documents `ids` [chosen], ascending positions, for reading again. Called after `batches`."""
