"""`gpulsh`: the group of commands. Every error becomes one plain line and an exit status."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from gpulsh import __version__
from gpulsh.cli.options import Context, Group, suggestion
from gpulsh.cli.terminal import (
    UNWRITABLE,
    clean_exit,
    flush,
    flush_notes,
    note,
    open_standard_streams,
    output_error,
    printed_warnings,
    silence,
)
from gpulsh.errors import GpulshError, ParameterError

COMMANDS = {  # name -> module, imported when the command is used
    "dedup": "gpulsh.cli.dedup",
    "passages": "gpulsh.cli.passages",
    "cut": "gpulsh.cli.passages",
    "show": "gpulsh.cli.show",
    "report": "gpulsh.cli.show",
    "weights": "gpulsh.cli.show",
    "index": "gpulsh.cli.index",
    "sign": "gpulsh.cli.dedup",
    "sample": "gpulsh.cli.studies",
    "curve": "gpulsh.cli.studies",
    "compare": "gpulsh.cli.studies",
    "plan": "gpulsh.cli.plan",
    "info": "gpulsh.cli.show",
}
DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
MIN_LIKENESS = 0.7  # least likeness of a suggested option; `shingling` and `shingle` have 0.75
MANY_OBJECTS = 200_000  # more than all modules and compiled kernels have
# Errors of Python and Arrow that have no type of their own.
NO_THREAD = ("can't start new thread", "Failed to launch worker thread")
NO_THREAD_MESSAGE = (
    "no more threads can be started: the system allows this user or container too few (ulimit -u, pids.max), or too"
    " little memory for their stacks (ulimit -v); raise the limit, or give --threads 1"
)


class _Commands(Group):
    context_class = Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        for one in (command, *getattr(command, "commands", {}).values()):
            one.context_class = Context
            # A command keeps the help option of its first context.
            one.context_settings = {**group.context_settings, **one.context_settings}
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # click would print an empty line
            raise click.Abort from error


def _with_help(message: str, error: click.UsageError) -> str:
    return message.rstrip(".") + (f"; see `{error.ctx.command_path} --help`" if error.ctx else "")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="gpulsh", message="%(prog)s %(version)s")
def group() -> None:
    """Find and remove near-duplicate documents, on a CUDA GPU or a CPU with the same results.

    To begin: gpulsh dedup crawl/ -o clean/, then gpulsh show clean/.

    Every command also takes --verbose: dedup then prints all counts, and an error shows its traceback.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status; None: the arguments of this process.

    0 done, 1 failed, 2 wrong usage, 130 interrupted. An error is one line on standard error. With `--verbose`, anywhere
    in the line, the traceback precedes it.
    """
    if arguments is None:
        # Modules and kernels live until the process ends. Collecting and freeing them would take long.
        gc.set_threshold(MANY_OBJECTS)
        atexit.register(gc.freeze)
        # No command uses NumPy's linear algebra. Its library would start a thread for each processor.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        # Arrow's own allocator reserves 1 GiB at once, and keeps freed memory: both count against `memory_limit`.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    open_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    verbose = "--verbose" in given
    given = [argument for argument in given if argument != "--verbose"]
    try:
        with printed_warnings(), clean_exit():
            status = group.main(given, prog_name="gpulsh", standalone_mode=False, obj=verbose)
        flush()
        return status if isinstance(status, int) else DONE
    except (click.exceptions.NoArgsIsHelpError, click.exceptions.Exit) as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            note(error.format_message())
        return error.exit_code
    except (KeyboardInterrupt, click.Abort, SystemExit) as end:
        status = end.code if isinstance(end, SystemExit) else _report_failure("interrupted", INTERRUPTED, verbose)
        if arguments is not None or not isinstance(status, int):
            if isinstance(end, SystemExit):
                raise
            return INTERRUPTED
    except BrokenPipeError:
        silence(sys.stdout)  # the reader of our output has gone, as in `gpulsh ... | head`
        return FAILED
    except click.NoSuchOption as error:
        from gpulsh.checks import FOREIGN_KEYWORDS

        name = error.option_name.lstrip("-").replace("-", "_")
        meant = FOREIGN_KEYWORDS.get(name, name).replace("_", "-")
        options = [one for one in error.ctx.command.params if isinstance(one, click.Option)] if error.ctx else []
        flags = [flag for option in options for flag in (*option.opts, *option.secondary_opts)]
        nearest = suggestion(meant, flags, MIN_LIKENESS)
        message = f"{error.message}{nearest}" if nearest else _with_help(error.message, error)
        return _report_failure(message, WRONG_USAGE, verbose)
    except click.MissingParameter as error:
        return _report_failure(_with_help(error.format_message(), error), WRONG_USAGE, verbose)
    except click.ClickException as error:
        unreadable = isinstance(error.__context__, OSError)  # a file that an option or argument names
        return _report_failure(error.format_message(), FAILED if unreadable else WRONG_USAGE, verbose)
    except ParameterError as error:
        return _report_failure(error.message, WRONG_USAGE, verbose)
    except Exception as error:
        return _report_failure(_message(error), FAILED, verbose)
    finally:
        flush_notes()
    # A signal, and all is clean: with the exception, what its frames held is gone, such as copies of streams.
    with suppress(*UNWRITABLE):
        sys.stdout.flush()
    os._exit(status)  # Python's shutdown may wait for threads, and Ray that has half begun or ended aborts it


def _message(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if any(text in str(cause) for text in NO_THREAD):
            return NO_THREAD_MESSAGE
        cause = cause.__cause__
    if isinstance(error, GpulshError):
        return error.message
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd
        return "the current folder was removed; change to another one"
    if isinstance(error, OSError):
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == click.echo.__module__:  # click printed the help or the version
            return output_error(error).message
    # A defect of gpulsh, not of its input.
    return f"unexpected {type(error).__name__}: {error}; --verbose shows where"


def _report_failure(message: str, status: int, verbose: bool) -> int:
    if verbose:
        note(traceback.format_exc().rstrip("\n"))
    line = " ".join(message.split())
    note(f"gpulsh: {'error: ' if status != INTERRUPTED else ''}{line}")
    return status
