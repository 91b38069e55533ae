"""`gpulsh`: the group of commands, and how whatever happens becomes one plain line and an exit status."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import click

from gpulsh import __version__
from gpulsh.cli.sections import Context
from gpulsh.cli.terminal import flush, forsake, open_standard_streams, tell, unwritable, warnings_told
from gpulsh.errors import GpulshError, ParameterError

COMMANDS = {  # name -> module that has it, imported when it is asked for
    "dedup": "gpulsh.cli.dedup",
    "show": "gpulsh.cli.show",
    "report": "gpulsh.cli.report",
    "index": "gpulsh.cli.index",
    "sign": "gpulsh.cli.sign",
    "sample": "gpulsh.cli.sample",
    "curve": "gpulsh.cli.curve",
    "compare": "gpulsh.cli.compare",
    "plan": "gpulsh.cli.plan",
    "info": "gpulsh.cli.info",
}
DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
ALIKE = 0.61  # of an option and the one that may have been meant, at least; of --on-error and --num-perm it is 0.6
MANY_OBJECTS = 200_000  # more than all modules and compiled kernels have
# What Python and Arrow say in errors of theirs that have no type of their own.
THREADLESS = ("can't start new thread", "Failed to launch worker thread")
NO_THREADS = (
    "no more threads can be started: the system allows this user or container too few (ulimit -u, pids.max), or too"
    " little memory for their stacks (ulimit -v); raise that, or give --threads 1, which takes the fewest"
)


class _Commands(click.Group):
    context_class = Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        for one in (command, *getattr(command, "commands", {}).values()):
            one.context_class = Context
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            nearest = get_close_matches(name, COMMANDS, 1)
            ctx.fail(
                f"No such command {name!r}. Did you mean {nearest[0]}?" if nearest else f"No such command {name!r}."
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # click would make it an Abort too, and print an empty line first
            raise click.Abort from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="gpulsh", message="%(prog)s %(version)s")
def group() -> None:
    """Find and remove near-duplicate documents, on a CUDA GPU or a CPU with the same results."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line `arguments` (the process's own where None) and returns the exit status.

    0 done, 1 failed, 2 wrong usage, 130 interrupted; an error is one line on standard error. `--verbose`, anywhere,
    prints the traceback before it.
    """
    if arguments is None:
        # Modules and kernels stay to the end of the process: to look among them for garbage, and to free them one by
        # one at the end, takes long and gains nothing.
        gc.set_threshold(MANY_OBJECTS)
        atexit.register(gc.freeze)
        # NumPy's library of linear algebra, of which no command asks anything, would start a thread for each processor
        # when it is loaded, and each would look for work in a loop before it sleeps.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    open_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    verbose = "--verbose" in given
    given = [argument for argument in given if argument != "--verbose"]
    try:
        with warnings_told():
            status = group.main(given, prog_name="gpulsh", standalone_mode=False)
        flush()
        return status if isinstance(status, int) else DONE
    except (click.exceptions.NoArgsIsHelpError, click.exceptions.Exit) as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            tell(error.format_message())
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        if arguments is None:  # Python's own end is left, which another Ctrl-C cuts short and has nothing to say of
            with suppress(ValueError):  # in a thread that may set no handlers
                signal.signal(signal.SIGINT, signal.SIG_DFL)
        return _told("interrupted", INTERRUPTED, verbose)
    except BrokenPipeError:
        # Whoever read our output has gone, as `gpulsh ... | head` does; Python would complain once more when it ends.
        forsake(sys.stdout)
        return FAILED
    except click.NoSuchOption as error:
        nearest = get_close_matches(error.option_name, error.possibilities or (), 1, ALIKE)
        return _told(f"{error.message}{f' Did you mean {nearest[0]}?' if nearest else ''}", WRONG_USAGE, verbose)
    except click.ClickException as error:
        return _told(error.format_message(), WRONG_USAGE, verbose)
    except ParameterError as error:
        return _told(error.message, WRONG_USAGE, verbose)
    except GpulshError as error:
        return _told(NO_THREADS if _lacks_threads(error) else error.message, FAILED, verbose)
    except MemoryError:
        return _told("out of memory", FAILED, verbose)
    except Exception as error:
        if isinstance(error, OSError) and _is_of_print(error):
            return _told(unwritable(error).message, FAILED, verbose)
        if _lacks_threads(error):
            return _told(NO_THREADS, FAILED, verbose)
        # A defect of gpulsh, not of what it was given.
        return _told(f"unexpected {type(error).__name__}: {error}; --verbose shows where", FAILED, verbose)


def _is_of_print(error: OSError) -> bool:
    """Whether click met it that printed the help or the version: all else is printed by `terminal`."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__") == click.echo.__module__


def _lacks_threads(error: BaseException | None) -> bool:
    """Whether it is one, or follows from one, of a thread that the system did not start."""
    while error is not None and not any(said in str(error) for said in THREADLESS):
        error = error.__cause__
    return error is not None


def _told(message: str, status: int, verbose: bool) -> int:
    if verbose:
        tell(traceback.format_exc().rstrip("\n"))
    line = " ".join(message.split())
    tell(f"gpulsh: {'error: ' if status != INTERRUPTED else ''}{line}")
    return status
