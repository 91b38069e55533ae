"""Several threads read pieces of files ahead of the reader of their blocks, within a bound of bytes.

A thread reads its piece on as long as there is room. Rejected: a future for each block, which is asked for only when
the reader comes back for another block. A piece of many blocks is then read no faster than by one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition, Thread
from typing import Generic, NamedTuple, TypeVar

Piece = TypeVar("Piece")
Block = TypeVar("Block")


def read_ahead(
    pieces: Iterable[Piece],
    read: Callable[[Piece], Iterator[Block]],
    size: Callable[[Block], int],
    threads: int,
    most_bytes: int,
) -> Iterator[Block]:
    """The blocks of all pieces, in order; `threads` threads read a piece each.

    Waiting blocks have `most_bytes` together, and one more block where the reader waits for it. An error of `read` is
    raised in its place. When the reader stops, the threads stop.
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


class _End(NamedTuple):
    """Stands behind the last block of a piece."""

    error: BaseException | None


class _Ahead(Generic[Piece, Block]):
    """The pieces that were begun and not yet handed over, each a queue of blocks with their sizes, under one lock."""

    def __init__(
        self,
        pieces: Iterable[Piece],
        read: Callable[[Piece], Iterator[Block]],
        size: Callable[[Block], int],
        most_bytes: int,
    ) -> None:
        self._pieces, self._read, self._size, self._most_bytes = iter(pieces), read, size, most_bytes
        self._changed = Condition()
        self._begun: deque[deque[tuple[Block | _End, int]]] = deque()
        self._waiting = 0  # bytes
        self._ended = False  # no piece is left
        self._closed = False  # the reader has stopped

    def serve(self) -> None:
        """Read until no piece is left."""
        while not self._closed:
            with self._changed:
                # Many pieces of small blocks must not be read without end, either.
                self._changed.wait_for(lambda: self._closed or not self._begun or self._waiting < self._most_bytes)
                try:
                    piece = next(self._pieces)
                except StopIteration:
                    self._ended = True
                    self._changed.notify_all()
                    return
                blocks: deque[tuple[Block | _End, int]] = deque()
                self._begun.append(blocks)
            end = _End(None)
            try:
                for block in self._read(piece):
                    if not self._put(blocks, block, self._size(block)):
                        return
                    del block
            except BaseException as error:
                end = _End(error)
            self._put(blocks, end, 0)

    def _put(self, blocks: deque[tuple[Block | _End, int]], block: Block | _End, size: int) -> bool:
        """Add a block to its piece when there is room; False when the reader has stopped."""

        def has_room() -> bool:
            is_awaited = not blocks and blocks is self._begun[0]
            return self._closed or not size or self._waiting + size <= self._most_bytes or is_awaited

        with self._changed:
            self._changed.wait_for(has_room)
            blocks.append((block, size))
            self._waiting += size
            self._changed.notify_all()
            return not self._closed

    def blocks(self) -> Iterator[Block]:
        """Each block when it is its turn."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._begun[0] if self._begun else self._ended)
                if not self._begun:
                    return
                block, size = self._begun[0].popleft()
                if isinstance(block, _End):
                    if block.error is not None:
                        raise block.error
                    self._begun.popleft()
                self._waiting -= size
                self._changed.notify_all()
            if not isinstance(block, _End):
                yield block
            del block

    def close(self) -> None:
        """Stop all threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
