"""What a command leaves that is asked to end: as with Ctrl-C, nothing that it has not finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gpulsh.cli.terminal import tell


@contextmanager
def ended_cleanly() -> Iterator[None]:
    """Make a request to end, or the hang-up of a terminal, leave what Ctrl-C leaves."""
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    before = {number: was for number, was in before.items() if was not in (None, signal.SIG_IGN)}  # as of `nohup`
    for number in before:
        signal.signal(number, _end)
    try:
        yield
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


def _end(number: int, frame: object) -> None:
    raise _Ended(number)
