"""What a command leaves that is asked to end: as with Ctrl-C, nothing that it has not finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gpulsh.cli.terminal import tell


@contextmanager
def ended_cleanly() -> Iterator[None]:
    """Make a request to end, or the hang-up of a terminal, leave what Ctrl-C leaves.

    What a library makes of any of them, as one may that is being imported, is the same request.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield
        return
    came: list[int] = []

    def end(number: int, frame: object) -> None:
        came.append(number)
        raise _ending(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    before = {number: was for number, was in before.items() if was not in (None, signal.SIG_IGN)}  # as of `nohup`
    for number in before:
        signal.signal(number, end)
    try:
        try:
            yield
        except Exception as error:
            if not came:
                raise
            raise _ending(came[0]) from error
    except _Ended as ended:
        tell(f"gpulsh: interrupted by {signal.Signals(ended.number).name}")
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Ended(SystemExit):
    """The process was asked to end by the signal `number`, and ends with the status that says so."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def _ending(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else _Ended(number)
