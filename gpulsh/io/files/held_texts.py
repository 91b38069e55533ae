"""Texts that a run keeps in memory when it has read them, for the stages that ask for them again.

To decode a file again takes as long as to sign it. What never left memory has no need of a digest either; but who puts
it beside what the file still holds has to know that this is the same file, by the bytes that it was decoded from.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from gpulsh.io.files.fixity import Digest
from gpulsh.io.rows import Rows

OFFSET_BYTES = 8  # of a row, beside its text
BLOCK_COST = 1 << 10  # bytes of a block, beside its rows: files may have one each, of few bytes


class Held(NamedTuple):
    """The texts of a piece."""

    blocks: list[tuple[int, Rows]]  # each with its first row
    packed: str | None  # digest of the bytes that they were decoded from, where it was asked for


@dataclass
class _Piece:
    blocks: list[tuple[int, Rows]] = field(default_factory=list)
    size: int = 0
    complete: bool = False
    packed: Digest | None = None

    def held(self) -> Held | None:
        packed = None if self.packed is None else self.packed.value()
        return Held(self.blocks, packed) if self.complete else None


class HeldTexts:
    """The texts of whole pieces of files, of at most `most_bytes` together; several threads may share it."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._pieces: dict[Hashable, _Piece | None] = {}  # None: too much to hold
        self._closed = False
        self._lock = Lock()

    def packed(self, piece: Hashable, size: int, key: bytes) -> Digest | None:
        """A digest under a key, for the bytes that a piece of about `size` bytes is decoded from, before it is; None
        where there is no room for the piece.
        """
        with self._lock:
            if self._closed or size > self._left or piece in self._pieces:
                return None
            digest = Digest(key)
            self._pieces[piece] = _Piece(packed=digest)
            return digest

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

    def find(self, piece: Hashable) -> Held | None:
        """The texts of a piece; None where not all are held."""
        with self._lock:
            found = self._pieces.get(piece)
            return None if found is None else found.held()

    def take(self, piece: Hashable) -> Held | None:
        """The same, which are held no longer."""
        with self._lock:
            found = self._pieces.pop(piece, None)
            if found is None:
                return None
            self._left += found.size
            return found.held()

    def close(self) -> None:
        """Let go of everything, and hold nothing more."""
        with self._lock:
            self._pieces.clear()
            self._closed = True
