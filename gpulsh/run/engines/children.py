"""Processes of this machine that do tasks, because threads take turns wherever they hold Python's lock.

A thread that signs JSON lines holds it for most of its time, so more threads hardly help. A child does one task at a
time. It is this Python with the same modules, but it does not run the program that called gpulsh again.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from subprocess import DEVNULL, Popen
from threading import Lock, Thread
from typing import Any

from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.parallel import python_command
from gpulsh.errors import Advice, BackendError
from gpulsh.run.engines.worker import Worker, WorkerAnswer, WorkerSetup, versions
from gpulsh.run.job import Layout, Task, TaskResult

_log = logging.getLogger("gpulsh")


class Children:
    """So many processes with the job of `setup`. All have begun, or an error says why one has not."""

    def __init__(self, setup: WorkerSetup, count: int) -> None:
        self._children: list[_Child] = []
        self._free: SimpleQueue[_Child] = SimpleQueue()
        try:
            for _ in range(count):
                self._children.append(_Child())
            # Now that all have started: a new process reads nothing yet, and a job of many files fills its pipe.
            pickled = ForkingPickler.dumps(setup)
            for child in self._children:
                child.send_bytes(pickled)
            for child in self._children:
                found, answer = child.receive()
                if found != versions():
                    raise BackendError("Python, gpulsh or pyarrow was updated after this process began; start it again")
                if isinstance(answer, Exception):
                    raise answer
                self._free.put(child)
        except BaseException:
            self.kill()
            raise

    def work(self, task: Task) -> TaskResult:
        """The result of a task, by a child that is free; or its error."""
        child = self._free.get()
        try:
            answer = child.ask(task)
        finally:
            self._free.put(child)
        if not isinstance(answer, WorkerAnswer):
            raise answer
        seconds = answer.compiled.seconds / len(self._children)  # they compile side by side
        COMPILING.count_elsewhere(replace(answer.compiled, seconds=seconds))
        return answer.result

    def kill(self) -> None:
        """End all of them, also in the middle of a task."""
        for child in self._children:
            child.process.kill()
            child.process.wait()


class _Known:
    """Is sent instead of a Layout that the child has from the task before. A Layout has a row for each file."""


class _Child:
    _layout: Layout | None = None  # that it has

    def __init__(self) -> None:
        self._connection, other_end = Pipe()
        with other_end:
            handle = other_end.fileno()
            command = python_command(f"from {__name__} import serve; serve({handle})")
            # In a group of its own, out of reach of Ctrl-C: this process ends it.
            self.process = Popen(command, stdin=DEVNULL, pass_fds=[handle], process_group=0)

    def ask(self, task: Task) -> Any:
        """The answer to a task."""
        layout = next((given for given in task.arguments if isinstance(given, Layout)), None)
        if layout is not None and layout is self._layout:
            task = replace(task, arguments=tuple(_Known() if given is layout else given for given in task.arguments))
        elif layout is not None:
            self._layout = layout
        self.send_bytes(ForkingPickler.dumps(task))
        return self.receive()

    def send_bytes(self, pickled: memoryview) -> None:
        with suppress(BrokenPipeError):  # `receive` says why
            self._connection.send_bytes(pickled)

    def receive(self) -> Any:
        try:
            while isinstance(found := self._connection.recv(), logging.LogRecord):
                if _log.isEnabledFor(found.levelno):
                    _log.handle(found)
            return found
        except (EOFError, OSError):  # the latter within an answer
            code = self.process.wait()
            how = signal.Signals(-code).name if code < 0 else f"status {code}"
            raise BackendError(
                f"a process that did a task ended with {how}; if memory ran out, give less memory or fewer threads"
            ) from None


class _SendWarnings(logging.Handler):
    """Sends warnings to the process that began this one, whose handlers show them."""

    def __init__(self, send: Callable[[object], None]) -> None:
        super().__init__(logging.WARNING)
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        if not isinstance(record.msg, Advice):
            record.msg = record.getMessage()  # its arguments may be anything
        record.args = None
        self._send(record)


def serve(handle: int) -> None:
    """Do tasks for the process at the other end, and end with it."""
    other_end, requests, worker, sending = Connection(handle), SimpleQueue[Any](), Worker(), Lock()

    def send(message: object) -> None:
        with sending:  # several threads may warn
            other_end.send(message)

    def receive() -> None:
        try:
            while True:
                requests.put(other_end.recv())
        finally:
            os._exit(1)

    _log.addHandler(_SendWarnings(send))
    Thread(target=receive, daemon=True).start()
    send((worker.greet(), worker.begin(requests.get(), "this machine")))
    layout: Layout | None = None
    while True:
        task = requests.get()
        arguments = [layout if isinstance(given, _Known) else given for given in task.arguments]
        layout = next((given for given in arguments if isinstance(given, Layout)), layout)
        send(worker.work(1, task.work, *arguments))
