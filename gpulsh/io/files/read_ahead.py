"""Several threads read pieces of files ahead of the reader of their blocks, within a bound of bytes.

A thread reads its piece as long as there is room. A future for each block, started only when the reader returns for
it, would read a piece of many blocks no faster than one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
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
    ahead: _Ahead[Piece, Block] = _Ahead(iter(pieces), read, size, most_bytes)
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


@dataclass(eq=False)
class _Ahead(Generic[Piece, Block]):
    """The pieces that were begun and not yet handed over, each a queue of blocks with their sizes, under one lock."""

    pieces: Iterator[Piece]
    read: Callable[[Piece], Iterator[Block]]
    size: Callable[[Block], int]
    most_bytes: int
    changed: Condition = field(default_factory=Condition)
    begun: deque[deque[tuple[Block | _End, int]]] = field(default_factory=deque)
    waiting: int = 0  # bytes
    ended: bool = False  # no piece is left
    closed: bool = False  # the reader has stopped

    def serve(self) -> None:
        """Read until no piece is left."""
        while not self.closed:
            with self.changed:
                # Many pieces of small blocks must not be read without end, either.
                self.changed.wait_for(lambda: self.closed or not self.begun or self.waiting < self.most_bytes)
                try:
                    piece = next(self.pieces)
                except StopIteration:
                    self.ended = True
                    self.changed.notify_all()
                    return
                blocks: deque[tuple[Block | _End, int]] = deque()
                self.begun.append(blocks)
            end = _End(None)
            try:
                for block in self.read(piece):
                    if not self._put(blocks, block, self.size(block)):
                        return
                    del block
            except BaseException as error:
                end = _End(error)
            self._put(blocks, end, 0)

    def _put(self, blocks: deque[tuple[Block | _End, int]], block: Block | _End, size: int) -> bool:
        """Add a block to its piece when there is room; False when the reader has stopped."""

        def has_room() -> bool:
            is_awaited = not blocks and blocks is self.begun[0]
            return self.closed or not size or self.waiting + size <= self.most_bytes or is_awaited

        with self.changed:
            self.changed.wait_for(has_room)
            blocks.append((block, size))
            self.waiting += size
            self.changed.notify_all()
            return not self.closed

    def blocks(self) -> Iterator[Block]:
        """Each block when it is its turn."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.begun[0] if self.begun else self.ended)
                if not self.begun:
                    return
                block, size = self.begun[0].popleft()
                if isinstance(block, _End):
                    if block.error is not None:
                        raise block.error
                    self.begun.popleft()
                self.waiting -= size
                self.changed.notify_all()
            if not isinstance(block, _End):
                yield block
            del block

    def close(self) -> None:
        """Stop all threads."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
