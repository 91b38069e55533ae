"""Several threads read pieces of files ahead of the reader of their blocks, within a bound of bytes.

A thread reads its piece as long as there is room. A future for each block, started only when the reader returns for
it, would read a piece of many blocks no faster than one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition, Thread
from typing import TypeVar

Piece = TypeVar("Piece")
Block = TypeVar("Block")


def read_ahead(
    pieces: Iterable[Piece],
    read: Callable[[Piece], Iterator[Block]],
    size: Callable[[Block], int],
    threads: int,
    max_bytes: int,
) -> Iterator[Block]:
    """The blocks of all pieces, in order; `threads` threads read a piece each.

    Waiting blocks have `max_bytes` together, and one more block where the reader waits for it. An error of `read` is
    raised in its place. When the reader stops, the threads stop.
    """
    left, changed = iter(pieces), Condition()
    # Of each piece begun and not yet handed over: its blocks, with their sizes, then StopIteration or an error.
    begun: deque[deque[tuple[Block | BaseException, int]]] = deque()
    waiting = 0  # bytes
    ended = False  # no piece is left
    closed = False  # the reader has stopped

    def put(blocks: deque[tuple[Block | BaseException, int]], block: Block | BaseException, added: int) -> bool:
        """Add a block to its piece when there is room; False when the reader has stopped."""
        nonlocal waiting

        def has_room() -> bool:
            is_awaited = not blocks and blocks is begun[0]
            return closed or not added or waiting + added <= max_bytes or is_awaited

        with changed:
            changed.wait_for(has_room)
            blocks.append((block, added))
            waiting += added
            changed.notify_all()
            return not closed

    def serve() -> None:
        """Read until no piece is left."""
        nonlocal ended
        while not closed:
            with changed:
                # Many pieces of small blocks must not be read without end, either.
                changed.wait_for(lambda: closed or not begun or waiting < max_bytes)
                try:
                    piece = next(left)
                except StopIteration:
                    ended = True
                    changed.notify_all()
                    return
                blocks: deque[tuple[Block | BaseException, int]] = deque()
                begun.append(blocks)
            end: BaseException = StopIteration()
            try:
                for block in read(piece):
                    if not put(blocks, block, size(block)):
                        return
                    del block
            except BaseException as error:
                end = error
            put(blocks, end, 0)

    workers = [Thread(target=serve, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        while True:
            with changed:
                changed.wait_for(lambda: begun[0] if begun else ended)
                if not begun:
                    return
                block, taken = begun[0].popleft()
                if isinstance(block, StopIteration):
                    begun.popleft()
                elif isinstance(block, BaseException):
                    raise block
                waiting -= taken
                changed.notify_all()
            if not isinstance(block, BaseException):
                yield block
            del block
    finally:
        with changed:
            closed = True
            changed.notify_all()
        for worker in workers:
            worker.join()
