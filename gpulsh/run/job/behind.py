"""Work done in the background: signed rows are put in order and written while more are signed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

Work = Callable[[], None]


@contextmanager
def behind(beside: bool) -> Iterator[Callable[[Work], None]]:
    """Yields a function that does work, one piece after another: on a thread of its own, or without `beside` at once.

    A piece waits for the one before it, so that no more than one is held besides what the caller makes. All is done
    when the context is left; what a piece raises is raised when the next one is given, or then.
    """
    if not beside:
        yield lambda work: work()
        return
    doing: list[Future[None]] = []
    with ThreadPoolExecutor(1) as thread:

        def do(work: Work) -> None:
            while doing:
                doing.pop().result()
            doing.append(thread.submit(work))

        yield do
        while doing:
            doing.pop().result()
