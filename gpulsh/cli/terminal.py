"""Prints for commands: no control character from outside gets through, and no finished run fails for want of a reader.

Standard output and standard error may be closed, full, or a pipe whose reader has gone. What goes to standard output
must arrive where somebody wants it, or the command failed: a report that ends amid a full disk is no report. What is
told on standard error need not.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import click

from gpulsh.errors import Advice, OutputError
from gpulsh.report.wording import printable, printable_lines

INDENT = 4  # of lines that are wrapped
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
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        click.echo("\n".join(wrapped(line, columns) for line in text.split("\n")) if columns else text)


def wrapped(line: str, columns: int) -> str:
    """A line that is wrapped between words, below where its last column begins.

    >>> print(wrapped("kept      2  = 1 null + 1 of a word", 28))
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


def marks(pieces: Iterable[tuple[bool, str]], *, kept: bool) -> str:
    """A text on one line, those pieces marked that differ: by colour in a terminal, otherwise as `wdiff` does."""
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    start, end = "{+" if kept else "[-", "+}" if kept else "-]"

    def mark(piece: str) -> str:
        if colour:
            return click.style(piece, fg="green") if kept else click.style(piece, fg="red", strikethrough=True)
        return f"{start}{piece}{end}"

    lines = ((differs, printable(re.sub(r"\s+", " ", piece))) for differs, piece in pieces)
    return "".join(mark(piece) if differs else piece for differs, piece in lines)


def flush() -> None:
    """As `say`, for what it left to be written."""
    with _writing():
        sys.stdout.flush()


def conclude(text: str) -> None:
    """Say what a command has done, on standard output; OutputError as of `say`, and no error where nobody reads it."""
    try:
        say(text)
    except BrokenPipeError:  # nobody wants to know
        forsake(sys.stdout)
    except OutputError as error:
        raise OutputError(f"all is done, but {error.message}") from error


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
        if isinstance(error, OSError) and _has_gone(error):
            raise BrokenPipeError(error.errno, error.strerror) from error
        raise unwritable(error) from error


def _has_gone(error: OSError) -> bool:
    """Whether standard output is a terminal that was closed. Its error is also that of a broken disk."""
    with suppress(*UNWRITABLE):
        return error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
    return False


def unwritable(error: OSError | ValueError) -> OutputError:
    """What standard output answered, and nothing more is written to it."""
    forsake(sys.stdout)
    told = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return OutputError(f"standard output cannot be written: {told}")


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
