"""Several threads read pieces of files ahead of who asks for their blocks, within a bound of bytes.

A thread reads its piece on by itself as long as there is room. Blocks as futures of an executor need no condition, but
each is asked for when the reader comes back for another one: a piece of many blocks is then read no faster than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition, Thread
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Block = TypeVar("Block")


def read_ahead(
    pieces: Iterable[Piece],
    read: Callable[[Piece], Iterator[Block]],
    size: Callable[[Block], int],
    threads: int,
    most_bytes: int,
) -> Iterator[Block]:
    """The blocks of all pieces, in order; `threads` pieces are read at once.

    Blocks that wait have `most_bytes` together, of the piece that is asked for one more: a piece larger than that is
    read no faster than its blocks are taken, and holds up no other. What `read` raises is raised here in its place, and
    when the reader stops, so do the threads.
    """
    ahead: _Ahead[Piece, Block] = _Ahead(pieces, read, size, most_bytes)
    workers = [Thread(target=ahead.serve, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield from ahead.blocks()
    finally:
        ahead.close()
        for worker in workers:
            worker.join()


class _Piece(Generic[Block]):
    def __init__(self) -> None:
        self.waiting: deque[tuple[Block, int]] = deque()
        self.ended = False
        self.error: BaseException | None = None


class _Ahead(Generic[Piece, Block]):
    """Pieces in order, each with its blocks that wait, under one lock."""

    def __init__(
        self,
        pieces: Iterable[Piece],
        read: Callable[[Piece], Iterator[Block]],
        size: Callable[[Block], int],
        most_bytes: int,
    ) -> None:
        self._pieces, self._read, self._size, self._most_bytes = iter(pieces), read, size, most_bytes
        self._changed = Condition()
        self._taken: deque[_Piece[Block]] = deque()  # from the one that is asked for on
        self._held = 0  # bytes that wait
        self._ended = False  # no piece is left, or nobody asks any more
        self._closed = False

    def serve(self) -> None:
        """Read until no piece is left."""
        while (taken := self._take()) is not None:
            given, piece = taken
            try:
                for block in self._read(given):
                    if not self._put(piece, block):
                        return
                    del block
            except BaseException as error:
                piece.error = error
            with self._changed:
                piece.ended = True
                self._changed.notify_all()

    def _take(self) -> tuple[Piece, _Piece[Block]] | None:
        with self._changed:
            # Pieces of nothing but small blocks are not read without end, either.
            self._changed.wait_for(lambda: self._ended or not self._taken or self._held < self._most_bytes)
            if self._ended:
                return None
            piece: _Piece[Block] = _Piece()
            try:
                given = next(self._pieces)
            except StopIteration:
                self._ended = True
                self._changed.notify_all()
                return None
            except BaseException as error:
                self._ended = True
                piece.error, piece.ended = error, True
                self._taken.append(piece)
                self._changed.notify_all()
                return None
            self._taken.append(piece)
            return given, piece

    def _put(self, piece: _Piece[Block], block: Block) -> bool:
        """Have the block wait, when there is room; False where nobody asks any more."""
        size = self._size(block)
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closed
                    or self._held + size <= self._most_bytes
                    or (self._taken[0] is piece and not piece.waiting)
                )
            )
            piece.waiting.append((block, size))
            self._held += size
            self._changed.notify_all()
            return not self._closed

    def blocks(self) -> Iterator[Block]:
        """Each block when it is its turn."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._taken or self._ended)
                if not self._taken:
                    return
                piece = self._taken[0]
                while not (piece.waiting or piece.ended):
                    self._changed.wait()
                if not piece.waiting:
                    if piece.error is not None:
                        raise piece.error
                    self._taken.popleft()
                    self._changed.notify_all()
                    continue
                block, size = piece.waiting.popleft()
                self._held -= size
                self._changed.notify_all()
            yield block
            del block

    def close(self) -> None:
        """Nothing more is taken."""
        with self._changed:
            self._ended = self._closed = True
            self._changed.notify_all()
