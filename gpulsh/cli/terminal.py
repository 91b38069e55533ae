"""What commands print: no control character of a stranger's, and no finished run that fails because nobody reads it.

Standard output and standard error may be closed, full, or a pipe whose reader has gone. Results that are printed must
arrive, or the command failed; what is only told about work that is done need not.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import click

from gpulsh.errors import OutputError
from gpulsh.report.foreign import printable, printable_lines

UNWRITABLE = (OSError, ValueError)  # of a stream that was closed in this process the latter


def open_standard_streams() -> None:
    """Where a standard stream is closed, the null device in its place: else a file of the run would get its number, and
    whoever writes to the stream, a library's C code too, would write to that file.
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
    with _writing():
        click.echo(printable_lines(text))


def flush() -> None:
    """As `say`, for what it left to be written."""
    with _writing():
        sys.stdout.flush()


def conclude(text: str) -> None:
    """What a command has done, on standard output, or nowhere."""
    try:
        say(text)
    except BrokenPipeError:  # nobody wants to know
        forsake(sys.stdout)
    except OutputError as error:
        tell(f"gpulsh: all is done, but {error.message}")


def tell(text: str) -> None:
    """Anything else, on standard error, or nowhere."""
    try:
        click.echo(printable_lines(text), err=True)
    except UNWRITABLE:
        forsake(sys.stderr)


def forsake(stream: TextIO) -> None:
    """What is still written to the stream, what it holds at the end of the process too, goes nowhere."""
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
        tell(printable(record.getMessage()))


@contextmanager
def warnings_told() -> Iterator[None]:
    """Inside, gpulsh's warnings are told, unless somebody else listens to them."""
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
