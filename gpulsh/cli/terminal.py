"""Prints for commands: no control character from outside gets through, and no finished run fails for want of a reader.

Standard output and standard error may be closed, full, or a pipe whose reader has gone. Results that are printed must
arrive, or the command failed; what is only told about work that is done need not.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import click

from gpulsh.errors import Advice, OutputError
from gpulsh.report.foreign import printable, printable_lines

UNWRITABLE = (OSError, ValueError)  # of a stream that was closed in this process the latter


def open_standard_streams() -> None:
    """Open the null device in place of a closed standard stream: else a file of the run would get its number, and what
    anybody writes to the stream, a library's C code too, would go to that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY)  # takes the lowest free number; standard input can still not be read
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def say(text: str) -> None:
    """A result, on standard output; OutputError where it cannot be written, BrokenPipeError where nobody reads it."""
    say_marked(printable_lines(text))


def say_marked(text: str) -> None:
    """The same of a text that is printable but for the colours that `marks` gave it."""
    with _writing():
        click.echo(text)


def marks(pieces: Iterable[tuple[bool, str]], *, kept: bool) -> str:
    """A text made printable, those pieces marked that differ: by colour in a terminal, otherwise as `wdiff` does."""
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    start, end = "{+" if kept else "[-", "+}" if kept else "-]"

    def mark(piece: str) -> str:
        if colour:
            return click.style(piece, fg="green") if kept else click.style(piece, fg="red", strikethrough=True)
        return f"{start}{piece}{end}"

    return "".join(mark(printable(piece)) if differs else printable(piece) for differs, piece in pieces)


def flush() -> None:
    """As `say`, for what it left to be written."""
    with _writing():
        sys.stdout.flush()


def conclude(text: str) -> None:
    """Say what a command has done, on standard output, or nowhere."""
    try:
        say(text)
    except BrokenPipeError:  # nobody wants to know
        forsake(sys.stdout)
    except OutputError as error:
        tell(f"gpulsh: all is done, but {error.message}")


def tell(text: str) -> None:
    """Say anything else, on standard error, or nowhere."""
    try:
        click.echo(printable_lines(text), err=True)
    except UNWRITABLE:
        forsake(sys.stderr)


def forsake(stream: TextIO) -> None:
    """Drop what is written to the stream from here on, and what its buffer holds at the end of the process."""
    with suppress(*UNWRITABLE):  # one of a test may have no number
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except UNWRITABLE as error:
        forsake(sys.stdout)
        told = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise OutputError(f"standard output cannot be written: {told}") from error


class _Told(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        told = record.msg.message if isinstance(record.msg, Advice) else record.getMessage()
        tell(f"gpulsh: {printable(told)}")


@contextmanager
def warnings_told() -> Iterator[None]:
    """Print gpulsh's warnings, unless somebody else handles them."""
    logger = logging.getLogger("gpulsh")
    if logger.hasHandlers():
        yield
        return
    handler = _Told(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
