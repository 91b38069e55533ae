"""Shows the progress of the stages: bars on a terminal, a line per stage elsewhere, or events as JSON lines."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

from gpulsh.backends.compiling import COMPILING, Stopwatch
from gpulsh.backends.kernel_cache import kernel_cache
from gpulsh.checks import check_choice, plural
from gpulsh.report.wording import size
from gpulsh.stats.stages import Progress

if TYPE_CHECKING:
    import rich.progress

WIDTH_OF_BARS = 60  # columns of a terminal that has room for a bar
WIDTH_OF_NAME = 11  # columns of a spinner and the name of a stage
WIDTH_BEFORE_AMOUNTS = WIDTH_OF_NAME + 26  # and of a bar and the remaining time
RATED_UNITS = ("documents", "bytes", "pairs")

Show = bool | Literal["json"]


def open_progress(show: Show, stream: TextIO | None = None) -> Progress:
    """A listener that shows progress on `stream` (standard error): not at all, as bars, as lines, or as JSON lines."""
    check_choice("progress", show, (False, True, "json"))
    if not show:
        return Progress()
    shown = _SafeStream(stream or sys.stderr)
    if show == "json":
        return _Events(shown)
    return _Bars(shown) if shown.isatty() else _Lines(shown)


class _SafeStream:
    """A stream, None if there is none, that drops all text after a failed write, so that work continues."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        if self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):  # ValueError: this process closed it
                self._stream = None
        return len(text)

    def flush(self) -> None:
        """`write` has done it."""

    def isatty(self) -> bool:
        with suppress(OSError, ValueError):
            return self._stream is not None and self._stream.isatty()
        return False


class Tally:
    """The amounts that have passed a stage so far, by unit, documents and bytes first."""

    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit  # a total of "B" is a guess
        self.own = "bytes" if unit == "B" else unit
        self.done = Counter(documents=0, bytes=0)
        self.before: Counter[str] | None = None  # counts of the run that this one resumes
        self.dropped = 0
        self.seconds: float | None = None  # once it has ended
        self._watch = Stopwatch()

    def end(self) -> None:
        """Note that the stage has ended. A stage that reported nothing has done its total, unless that is a guess."""
        self.seconds = self._watch.seconds()
        if self.before is None and self.unit != "B" and not self.done[self.own]:
            self.done[self.own] = self.total or 0

    def amounts(self) -> dict[str, int]:
        """The amounts that are known."""
        return {name: amount for name, amount in self.done.items() if amount}

    def new_amounts(self) -> Mapping[str, int]:
        """As `amounts`, without the work of an earlier run."""
        return self.done - (self.before or Counter())

    def rates(self) -> dict[str, float]:
        """Documents, bytes and pairs per second; rates of other units would say nothing."""
        seconds = self.seconds if self.seconds is not None else self._watch.seconds()
        return {
            name: amount / seconds for name, amount in self.new_amounts().items() if name in RATED_UNITS and seconds > 0
        }


class _Lines(Progress):
    """Keeps the tally of the current stage, and writes a line about it at its end; subclasses show it otherwise."""

    def __init__(self, stream: _SafeStream) -> None:
        self._stream = stream
        self._tally = Tally("", None, "")
        self._announced = False  # whether the message about compiling was shown

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[None]:
        self._tally = Tally(name, total, unit)
        with self._show_stage(self._tally), COMPILING.listen(self._compiling):
            yield
            self._tally.end()

    def advance(self, amount: int) -> None:
        self._tally.done[self._tally.own] += amount

    def count(self, *, documents: int = 0, size: int = 0, dropped: int = 0) -> None:
        self._tally.done.update(documents=documents, bytes=size)
        self._tally.dropped += dropped

    def done_before(self, amount: int, *, documents: int = 0, size: int = 0) -> None:
        before = self._tally.before = self._tally.before or Counter(documents=0, bytes=0)
        before.update(documents=documents, bytes=size)
        before[self._tally.own] += amount

    def _compiling(self) -> None:
        if not self._announced:
            self._announced = True
            self._announce_kernels()

    def _announce_kernels(self) -> None:
        """Say once that kernels are being compiled; called by the thread that is about to."""
        self._write(f"gpulsh: {_compile_note()}")

    @contextmanager
    def _show_stage(self, tally: Tally) -> Iterator[None]:
        """The stage, from before it begins until after it has ended."""
        yield
        self._write(f"gpulsh: {tally.name}: {summary(tally)}")

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")


class _Events(_Lines):
    """{"event": "begin" | "end", "stage": ..., "time": ...} and, if known, total and unit, amounts and rates.

    "before" has the amounts that the resumed run had done; rates leave them out.
    Once there may be {"event": "compile", ...}: kernels are being compiled, which no "seconds" include.
    """

    @contextmanager
    def _show_stage(self, tally: Tally) -> Iterator[None]:
        self._event("begin", tally.name, {"total": tally.total, "unit": tally.unit})
        yield
        rates = {f"{name}_per_second": round(rate, 1) for name, rate in tally.rates().items()}
        dropped: dict[str, object] = {"dropped": tally.dropped} if tally.dropped else {}
        if tally.before is not None:
            dropped["before"] = {name: amount for name, amount in tally.before.items() if amount}
        known = {**tally.amounts(), **rates, **dropped}
        self._event("end", tally.name, {"seconds": round(tally.seconds or 0, 6), **known})

    def _announce_kernels(self) -> None:
        self._event("compile", self._tally.name, {"kept": kernel_cache().folder})

    def _event(self, event: str, stage: str, facts: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"event": event, "stage": stage, "time": now, **facts}))


class _Bars(_Lines):
    def __init__(self, stream: _SafeStream) -> None:
        super().__init__(stream)
        self._bars: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    @contextmanager
    def _show_stage(self, tally: Tally) -> Iterator[None]:
        from rich import progress as parts
        from rich.console import Console
        from rich.table import Column
        from rich.text import Text

        console = Console(file=cast(TextIO, self._stream))
        bar = (parts.BarColumn(16), parts.TimeRemainingColumn(compact=True)) if console.width >= WIDTH_OF_BARS else ()
        room = console.width - (WIDTH_BEFORE_AMOUNTS if bar else WIDTH_OF_NAME)

        class Amounts(parts.ProgressColumn):
            """As many amounts as there is room for."""

            def render(self, task: parts.Task) -> Text:
                if tally.seconds is None:
                    return Text(first_fitting(", ".join(_rates(tally)), room), no_wrap=True, overflow="ellipsis")
                ended = first_fitting(f"  {tally.name:<8} {summary(tally)}", console.width)
                return Text(ended, no_wrap=True, overflow="ellipsis")

        columns: tuple[parts.ProgressColumn, ...] = (
            parts.SpinnerColumn(finished_text=" "),
            parts.TextColumn("{task.description:<8}", table_column=Column(min_width=8)),
            *bar,
            Amounts(Column(no_wrap=True)),
        )
        with parts.Progress(*columns, console=console) as bars:
            self._bars, self._task = bars, bars.add_task(tally.name, total=tally.total)
            try:
                yield
                # It has ended, though its total was an estimate or not known, or it reported nothing.
                bars.columns = columns[-1:]
                done = tally.done[tally.own] or 1
                bars.update(self._task, total=done, completed=done)
            finally:
                self._bars = self._task = None

    def _announce_kernels(self) -> None:
        if self._bars is None:
            super()._announce_kernels()
        else:
            self._bars.console.print(f"  {_compile_note()}", markup=False, highlight=False, soft_wrap=True)

    def advance(self, amount: int) -> None:
        super().advance(amount)
        if self._bars is not None and self._task is not None:
            self._bars.advance(self._task, amount)


def _compile_note() -> str:
    if kernel_cache().folder is not None:
        return "compiling kernels for this processor; later runs reuse them and compile only new ones"
    return "compiling kernels for this processor; later runs compile them again, and `gpulsh info` shows why"


def summary(tally: Tally) -> str:
    """The amounts, the seconds if it has ended, the rates, and how many documents were dropped.

    >>> tally = Tally("sign", None, "B")
    >>> tally.done.update(bytes=5_000_000, documents=500)
    >>> tally.seconds = 0.5
    >>> summary(tally)
    '500 documents, 5.0 MB in 0.5 s, 1,000 documents/s, 10.0 MB/s'
    >>> tally.before = Counter(bytes=5_000_000, documents=500)
    >>> summary(tally)
    '500 documents, 5.0 MB, done before'
    >>> tally.done["bytes"] += 1_000_000
    >>> summary(tally)
    '500 documents, 6.0 MB (5.0 MB and 500 documents of it done before) in 0.5 s, 2.0 MB/s'
    """
    amounts = ", ".join(_amount(amount, name) for name, amount in tally.amounts().items())
    if tally.before is not None and tally.seconds is not None:
        if not tally.new_amounts():
            return ", ".join([*([amounts] if amounts else []), "done before", *_rates(tally)])
        earlier = [_amount(amount, name) for name, amount in tally.before.items() if amount]
        amounts += f" ({' and '.join(earlier) or 'some'} of it done before)"
    if tally.seconds is not None:
        amounts += f" in {tally.seconds:.1f} s" if amounts else f"{tally.seconds:.1f} s"
    return ", ".join([*([amounts] if amounts else []), *_rates(tally)])


def first_fitting(amounts: str, width: int) -> str:
    """The first parts of a list that fit into so many columns, none cut in two; at least one.

    >>> first_fitting("500 documents, 2.0 MB in 0.5 s, 1,000 documents/s, 4.0 MB/s", 52)
    '500 documents, 2.0 MB in 0.5 s, 1,000 documents/s'
    """
    parts = amounts.split(", ")
    while len(parts) > 1 and len(", ".join(parts)) > width:
        parts.pop()
    return ", ".join(parts)


def _rates(tally: Tally) -> list[str]:
    rates = [f"{_amount(int(rate), name)}/s" for name, rate in tally.rates().items() if rate >= 1]
    return [*rates, *([f"{tally.dropped:,} dropped"] if tally.dropped else [])]


def _amount(number: int, name: str) -> str:
    return size(number) if name == "bytes" else plural(number, name.removesuffix("s"))
