"""Texts that a run keeps in memory when it has read them, for the stages that ask for them again.

To decode a file again takes as long as to sign it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock

from gpulsh.io.rows import Rows

OFFSET_BYTES = 8  # of a row, beside its text
BLOCK_COST = 1 << 10  # bytes of a block, beside its rows: files may have one each, of few bytes


Blocks = list[tuple[int, Rows]]  # the texts of a piece, each block with its first row


@dataclass
class _Piece:
    blocks: Blocks = field(default_factory=list)
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
        size = int(texts.lengths().sum()) + OFFSET_BYTES * len(texts) + BLOCK_COST
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

    def find(self, piece: Hashable) -> Blocks | None:
        """The texts of a piece; None where not all are held."""
        with self._lock:
            found = self._pieces.get(piece)
            return found.blocks if found is not None and found.complete else None

    def take(self, piece: Hashable) -> Blocks | None:
        """The same, which are held no longer."""
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
