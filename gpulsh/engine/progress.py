"""Shows the progress of the stages: bars on a terminal, otherwise a line a stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TextIO

from gpulsh.dedup.progress import Progress, Silent

if TYPE_CHECKING:
    import rich.progress


def open_progress(show: bool, stream: TextIO | None = None) -> Progress:
    """What tells of progress on `stream` (standard error): nothing, bars on a terminal, lines elsewhere."""
    if not show:
        return Silent()
    stream = stream or sys.stderr
    return _Bars(stream) if stream.isatty() else _Lines(stream)


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._done = 0

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[None]:
        self._done = 0
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        done = self._done or total
        amount = f"{_amount(done, unit)} in " if done else ""
        self._stream.write(f"gpulsh: {name}: {amount}{seconds:.1f} s\n")
        self._stream.flush()

    def advance(self, amount: int) -> None:
        self._done += amount


class _Bars:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bars: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def stage(self, name: str, total: int | None, unit: str) -> AbstractContextManager[None]:
        return self._stage(name, total, unit)

    @contextmanager
    def _stage(self, name: str, total: int | None, unit: str) -> Iterator[None]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            SpinnerColumn,
            Task,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class Rate(ProgressColumn):
            def render(self, task: Task) -> Text:
                done = _amount(int(task.completed), unit)
                whole = "" if task.total is None else f" of {_amount(int(task.total), unit)}"
                speed = task.finished_speed or task.speed
                return Text(f"{done}{whole}" + (f", {_amount(int(speed), unit)}/s" if speed else ""))

        columns = [SpinnerColumn(), TextColumn("{task.description:<10}"), BarColumn(), Rate(), TimeRemainingColumn()]
        with Progress(*columns, console=Console(file=self._stream), transient=False) as bars:
            self._bars, self._task = bars, bars.add_task(name, total=total)
            try:
                yield
            finally:
                if total is None:  # an open end is reached: show it as whole
                    bars.update(self._task, total=bars.tasks[0].completed or 1, completed=bars.tasks[0].completed or 1)
                self._bars = self._task = None

    def advance(self, amount: int) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.advance(self._task, amount)


def _amount(number: int, unit: str) -> str:
    if unit != "B":
        return f"{number:,} {unit}"
    size = float(number)
    for prefix in ("", "k", "M", "G", "T"):
        if size < 1000 or prefix == "T":
            return f"{size:.0f} B" if not prefix else f"{size:.1f} {prefix}B"
        size /= 1000
    raise AssertionError
