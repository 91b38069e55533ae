"""Shows the progress of the stages: bars on a terminal, otherwise a line a stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TextIO

from gpulsh.dedup.progress import Progress, Silent
from gpulsh.report.funnel import size

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

        ended: list[float] = []  # the seconds the stage took, once they are known

        class Amount(ProgressColumn):
            def render(self, task: Task) -> Text:
                done = int(task.completed)
                if ended:
                    rate = f", {_amount(int(told / ended[0]), unit)}/s" if told else ""
                    return Text((f"{_amount(done, unit)} in " if told else "") + f"{ended[0]:.1f} s{rate}")
                shown = _amount(done, unit) if done else ""
                if task.total is not None and done < task.total:
                    shown += f" of {_amount(int(task.total), unit)}" if done else _amount(int(task.total), unit)
                return Text(shown + (f", {_amount(int(task.speed), unit)}/s" if task.speed else ""))

        columns = [
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description:<8}"),
            BarColumn(),
            Amount(),
            TimeRemainingColumn(),
        ]
        began, told = time.perf_counter(), 0.0
        with Progress(*columns, console=Console(file=self._stream)) as bars:
            self._bars, self._task = bars, bars.add_task(name, total=total)
            try:
                yield
                # It has ended, though its total was an estimate or not known, or nothing of it was told.
                told = bars.tasks[0].completed
                ended.append(time.perf_counter() - began)
                bars.columns = tuple(columns[:-1])
                bars.update(self._task, total=told or 1, completed=told or 1)
            finally:
                self._bars = self._task = None

    def advance(self, amount: int) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.advance(self._task, amount)


def _amount(number: int, unit: str) -> str:
    return size(number) if unit == "B" else f"{number:,} {unit}"
