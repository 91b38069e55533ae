"""Texts that a run keeps in memory when it has read them, for the stage that asks for some of them again.

To decode a file again takes as long as to sign it. What never left memory has no need of a digest either.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock

from gpulsh.io.rows import Rows

OFFSET_BYTES = 8  # of a row, beside its text


@dataclass
class _Piece:
    blocks: list[tuple[int, Rows]] = field(default_factory=list)
    size: int = 0
    complete: bool = False


class HeldTexts:
    """The texts of whole pieces of files, of at most `most_bytes` together; several threads may share it."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._pieces: dict[Hashable, _Piece | None] = {}  # None: too much to hold
        self._closed = False
        self._lock = Lock()

    def add(self, piece: Hashable, start: int, texts: Rows) -> None:
        """The next rows of a piece, from row `start` of its file on; where there is no room, none of it is held."""
        size = int(texts.lengths().sum()) + OFFSET_BYTES * len(texts)
        with self._lock:
            found = None if self._closed else self._pieces.setdefault(piece, _Piece())
            if found is None:
                return
            if size > self._left:
                self._left += found.size
                self._pieces[piece] = None
                return
            found.blocks.append((start, texts))
            found.size += size
            self._left -= size

    def complete(self, piece: Hashable) -> None:
        """All rows of the piece were added."""
        with self._lock:
            if (found := self._pieces.get(piece)) is not None:
                found.complete = True

    def take(self, piece: Hashable) -> list[tuple[int, Rows]] | None:
        """The rows of a piece, each block with its first row, which are held no longer; None where not all are."""
        with self._lock:
            found = self._pieces.pop(piece, None)
            if found is None:
                return None
            self._left += found.size
            return found.blocks if found.complete else None

    def close(self) -> None:
        """Let go of everything, and hold nothing more."""
        with self._lock:
            self._pieces.clear()
            self._closed = True
