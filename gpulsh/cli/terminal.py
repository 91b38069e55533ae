"""Prints for commands, and ends them: no control character from outside gets through.

Standard output and standard error may be closed, full, or a pipe without a reader. A result that cannot be written to
standard output is an error, unless nobody reads it. Notes on standard error are dropped if they cannot be written.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from traceback import walk_stack
from types import FrameType
from typing import TextIO

import click

from gpulsh.errors import Advice, OutputError
from gpulsh.report.wording import printable, printable_lines

INDENT = 4  # of wrapped lines
AGAIN_SECONDS = 0.05  # until a signal comes again
UNWRITABLE = (OSError, ValueError)  # errors of a stream; ValueError if this process closed it


# --- writing ---


def open_standard_streams() -> None:
    """Open the null device for each standard stream that is closed.

    Otherwise a file of the run would get the stream's number, and text for the stream would go to that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY)  # takes the lowest free number
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def say(text: str) -> None:
    """Print a result; OutputError if it cannot be written, BrokenPipeError if nobody reads it."""
    say_marked(printable_lines(text))


def say_marked(text: str) -> None:
    """As `say`, for text that is printable except for the colours of `mark_differences`."""
    with _output_errors():
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        click.echo("\n".join(wrap_line(line, columns) for line in text.split("\n")) if columns else text)


def note(text: str) -> None:
    """Print on standard error, if that can be written."""
    try:
        click.echo(printable_lines(text), err=True)
    except UNWRITABLE:
        silence(sys.stderr)


def conclude(text: str) -> None:
    """Print what a command has done. OutputError as in `say`, but no error if nobody reads it."""
    try:
        say(text)
    except BrokenPipeError:
        silence(sys.stdout)
    except OutputError as error:
        raise OutputError(f"all is done, but {error.message}") from error


def flush() -> None:
    """Write the rest of the buffer of standard output. Errors are as in `say`."""
    with _output_errors():
        sys.stdout.flush()


def flush_notes() -> None:
    """Write the rest of the buffer of standard error, or drop it: Python would end with status 120."""
    try:
        sys.stderr.flush()
    except UNWRITABLE:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Drop all further text for the stream, including its buffer at the end of the process."""
    with suppress(*UNWRITABLE):  # a stream of a test may have no number
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except UNWRITABLE as error:
        if isinstance(error, OSError) and _terminal_closed(error):
            raise BrokenPipeError(error.errno, error.strerror) from error
        raise output_error(error) from error


def _terminal_closed(error: OSError) -> bool:
    """Whether standard output is a closed terminal; a broken disk gives the same error."""
    with suppress(*UNWRITABLE):
        return error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
    return False


def output_error(error: OSError | ValueError) -> OutputError:
    """The error of standard output, which gets no more text."""
    silence(sys.stdout)
    return OutputError(f"standard output cannot be written: {_reason(error)}")


def _reason(error: OSError | ValueError) -> str:
    """The cause of an error of a stream.

    >>> _reason(UnicodeEncodeError("latin-1", "a\u6f22", 1, 2, "ordinal not in range(256)"))
    "its encoding latin-1 has no '\\\\u6f22'; set PYTHONIOENCODING=utf-8"
    """
    if isinstance(error, UnicodeEncodeError):
        return f"its encoding {error.encoding} has no {error.object[error.start]!a}; set PYTHONIOENCODING=utf-8"
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        message = record.msg.message if isinstance(record.msg, Advice) else record.getMessage()
        note(f"gpulsh: {printable(message)}")


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print gpulsh's warnings, unless there is another handler."""
    logger = logging.getLogger("gpulsh")
    if logger.hasHandlers():
        yield
        return
    handler = _Warnings(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


# --- layout ---


def wrap_line(line: str, columns: int) -> str:
    """A line wrapped between words, with its last column indented.

    >>> print(wrap_line("kept      2  = 1 null + 1 of a word", 28))
    kept      2  = 1 null + 1 of
                 a word
    """
    if len(click.unstyle(line)) <= columns:
        return line
    start = max((gap.end() for gap in re.finditer(r"(?:^|\S) {2,}", line)), default=0)
    start = start if start <= columns // 2 else INDENT
    lines, used = [""], 0
    for word in re.split("(?<=[^ ])(?= )", line):
        length = len(click.unstyle(word))
        if used and used + length > columns:
            word = word.lstrip(" ")
            lines.append(" " * start)
            used, length = start, len(click.unstyle(word))
        lines[-1] += word
        used += length
    return "\n".join(lines)


def aligned_lines(table: tuple[Sequence[str], Iterable[Sequence[str]]], left: int = 0) -> Iterator[str]:
    """The lines of a head and rows, the first `left` columns aligned to the left; gaps shrink if wider than 80."""
    rows = [table[0], *table[1]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    gap = "  " if sum(widths) + 2 * len(widths) - 2 <= 80 else " "
    for row in rows:
        cells = zip(row, widths, strict=True)
        sides = (f"{cell:{'<' if place < left else '>'}{width}}" for place, (cell, width) in enumerate(cells))
        yield gap.join(sides).rstrip()


def mark_differences(pieces: Iterable[tuple[bool, str]], *, kept: bool) -> str:
    """A text on one line with its differing pieces marked: by colour in a terminal, otherwise as `wdiff` does."""
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    start, end = "{+" if kept else "[-", "+}" if kept else "-]"

    def mark(piece: str) -> str:
        if colour:
            return click.style(piece, fg="green") if kept else click.style(piece, fg="red", strikethrough=True)
        return f"{start}{piece}{end}"

    lines = ((differs, printable(re.sub(r"\s+", " ", piece))) for differs, piece in pieces)
    return "".join(mark(piece) if differs else piece for differs, piece in lines)


# --- signals ---


@contextmanager
def clean_exit() -> Iterator[None]:
    """Make SIGTERM and SIGHUP clean up as Ctrl-C does.

    A library may turn the signal into an error of its own: C code that is being imported, or Ray, whose calls end in
    SystemExit(1). The signal still counts. An exception in a destructor or in a callback from C is lost, and in LLVM it
    may cause a crash. So the signal comes again later.
    """
    if threading.current_thread() is not threading.main_thread():  # others may not set handlers
        yield
        return
    received: list[int] = []

    def ending(number: int) -> BaseException:
        return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)

    def come_again(number: int) -> None:
        threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()

    def note_lost(lost: sys.UnraisableHookArgs) -> None:
        if received and isinstance(lost.exc_value, (KeyboardInterrupt, SystemExit)):
            come_again(received[-1])
        else:
            hook(lost)

    def end(number: int, frame: FrameType | None) -> None:
        if any(caller.f_globals.get("__name__", "").startswith("llvmlite.") for caller, _ in walk_stack(frame)):
            come_again(number)
            return
        received.append(number)
        raise ending(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    before = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}  # nohup
    for number in before:
        signal.signal(number, end)
    hook, sys.unraisablehook = sys.unraisablehook, note_lost
    try:
        yield
    except (Exception, SystemExit) as error:
        if not received:
            raise
        if received[-1] != signal.SIGINT:
            note(f"gpulsh: interrupted by {signal.Signals(received[-1]).name}")
        raise ending(received[-1]) from error
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
