"""A process that has imported and compiled everything, and forks a child for each command.

So a command costs only its own work, and its death is that of a process. The child's time and memory are watched from
outside: a child that takes much more than it may is killed, and prints where it was. A child inherits freed memory, in
which a library may take more than the command may; `alone` starts Python anew.
"""

import contextlib
import faulthandler
import importlib
import io
import json
import os
import platform
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from gpulsh.backends.parallel import python_command
from gpulsh.io.html import CHILD
from tests.fuzz.case import Case
from tests.support import server

POLL = 0.004  # seconds
MAX_MEMORY = 1600 << 20  # beyond which it is killed
MAX_FILE = 3 << 30  # of one file that it writes
PAGE = resource.getpagesize()
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN = 200_000  # bytes of its output


@dataclass(frozen=True)
class Ended:
    status: int  # negative: by that signal
    out: str
    error: str
    seconds: float
    memory: int  # bytes at most at once, of the whole process
    killed: str  # the reason, empty if it ended by itself
    broke: list[str] = field(default_factory=list)  # its forbidden acts


class Server(server.Server):
    module = "tests.fuzz.server"

    def run(self, folder: Path, case: Case, *, limit: float, alone: bool = False) -> Ended:
        """Run the case in `folder`, for at most `limit` seconds of a processor, or as long asleep."""
        asked = {"arguments": case.arguments, "writes": case.writes, "target": case.target}
        asked |= {"limit": limit, "alone": alone}
        return Ended(**self.ask(folder=str(folder), **asked))


def _serve() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prepare()
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print(json.dumps(_run(json.loads(line), Path(folder))), flush=True)


def _run(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    names = [folder / name for name in ("out", "error", "broke")]
    handles = [os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600) for name in names]
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        if asked.pop("alone"):
            for handle in handles:
                os.set_inheritable(handle, True)
            os.execv(sys.executable, [sys.executable, "-m", Server.module, json.dumps([asked, handles])])
        _run_child(asked, handles)
    killed = _watch(child, asked["limit"])
    _, status, used = os.wait4(child, 0)
    seconds = round(time.monotonic() - start, 3)
    out, error, broke = (os.pread(handle, SHOWN, 0).decode("utf-8", "replace") for handle in handles)
    for handle in handles:
        os.close(handle)
    ended = {"status": os.waitstatus_to_exitcode(status), "seconds": seconds, "memory": used.ru_maxrss << 10}
    return {**ended, "out": out, "error": error, "killed": killed, "broke": broke.splitlines()}


def _watch(child: int, limit: float) -> str:
    """Wait for the end of the child, or kill it; returns the reason."""
    start = moved = time.monotonic()
    pause, before = 0.0005, 0.0
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        resident, busy = _used(child)
        now = time.monotonic()
        if busy > before:
            moved, before = now, busy
        if busy > limit or now - moved > limit:
            why = f"took {busy:.1f} s of a processor, {now - start:.1f} s of the clock"
        elif resident > MAX_MEMORY:
            why = f"took {resident >> 20} MiB"
        else:
            time.sleep(pause)
            pause = min(2 * pause, POLL)
            continue
        os.kill(child, signal.SIGABRT)  # faulthandler prints the place of every thread
        time.sleep(0.2)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        return why
    return ""


def _used(child: int) -> tuple[int, float]:
    """Resident bytes and seconds of processor time."""
    try:
        resident = int(Path(f"/proc/{child}/statm").read_text().split()[1]) * PAGE
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    except (OSError, IndexError):
        return 0, 0.0
    return resident, (int(fields[11]) + int(fields[12])) / TICKS


def _run_child(asked: dict[str, Any], handles: list[int]) -> None:
    status = 70
    broke: list[str] = []
    try:
        for number, handle in enumerate(handles[:2], 1):
            os.dup2(handle, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(asked["folder"])
        os.environ["TMPDIR"] = os.path.join(os.getcwd(), "tmp")
        tempfile.tempdir = None
        faulthandler.enable(os.fdopen(os.dup(2), "w"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
        module, _, name = asked["target"].partition(":")
        command = getattr(importlib.import_module(module), name)
        watch(Path.cwd(), [*asked["writes"], "tmp"], broke)
        status = command(asked["arguments"])
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os.write(handles[2], "\n".join(broke).encode("utf-8", "replace"))
        os._exit(status)


def _prepare() -> None:
    """Load and compile everything that a child may need, by using it."""
    from gpulsh.cli import main
    from tests.fuzz import case, formats

    os.fsync = lambda handle: None  # nothing here has to survive a power cut
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as error,
        tempfile.TemporaryDirectory() as name,
        contextlib.chdir(name),
    ):
        case.make_folders(Path(name))
        formats.examples(Path(name, "in"))
        cpu = ["--memory", "512MiB", "--backend", "cpu"]
        ways = [cpu, [*cpu, "--shingle", "char:5", "--on-error", "skip"]]
        ways.append([*cpu, "--verify", "signature", "--threads", "1", "--json"])
        ways.append(["--memory", "512MiB", "--backend", "reference", "--resolve", "components", "--keep", "longest"])
        runs = [(given, more) for given in sorted(str(path) for path in Path("in").iterdir()) for more in ways[:2]]
        runs += [("in", more) for more in ways[:3]] + [("in/a.jsonl", ways[3])]
        for number, (given, more) in enumerate(runs):
            assert main(["dedup", given, "-o", f"out{number}", *more]) == 0, error.getvalue()[-2000:]


# --- the acts of a process on files and other processes, by Python's audit events ---
# Recorded are writes outside of the paths that it may write to, reads of paths that it must not read, and executed
# commands. They are not prevented, so that the judge sees what would have happened.


WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {  # event -> arguments that are a path and its folder's handle
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.utime": ((0, 3),),
}
EXECUTES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "pickle.find_class", "socket.connect")
MAX_ACTS = 20  # acts that are recorded


def watch(folder: Path, writes: Sequence[str], found: list[str]) -> None:
    """From here on, add forbidden acts of this process to `found`; it may change the names `writes` in `folder`.

    There is no way to stop it.
    """
    base = os.path.realpath(folder)
    allowed = [os.path.join(base, name) for name in writes]
    secret = os.path.join(base, "beside")

    def is_allowed(path: str) -> bool:
        of_numba = f"{os.sep}__pycache__" in path
        return of_numba or path.startswith(("/dev/", "/proc/")) or any(_is_within(path, root) for root in allowed)

    def acts(event: str, arguments: tuple[Any, ...]) -> list[str]:
        if event in EXECUTES:
            is_own = event == "subprocess.Popen" and arguments[1] == python_command(CHILD)
            return [] if is_own or _is_compiler() else [f"{event} {arguments[:2]!r}"[:300]]
        if event == "open":
            path, mode, flags = arguments
            flags = flags or 0
            where = _place(path, None, follow=not flags & os.O_NOFOLLOW)
            if where is None:
                return []
            if _is_within(where, secret):
                return [f"opens {os.path.relpath(where, base)}"]
            writing = flags & WRITING or any(letter in (mode or "") for letter in "wax+")
            nameless = _is_within(where, base) and os.path.isdir(where)  # a file that changes nothing there
            return [f"writes {where}"] if writing and not nameless and not is_allowed(where) else []
        found = []
        for path, handle in CHANGES.get(event, ()):
            where = _place(arguments[path], None if handle is None else arguments[handle], follow=False)
            fails = where is None or (event == "os.mkdir" and os.path.isdir(where))
            if where is not None and not fails and not is_allowed(where):
                found.append(f"{event} {where}")
        return found

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" or event in CHANGES or event in EXECUTES:
            with suppress(OSError, ValueError):  # of a path that is none
                found.extend(acts(event, arguments)[: MAX_ACTS - len(found)])

    sys.addaudithook(hook)


def _place(path: Any, handle: Any, follow: bool) -> str | None:
    """The real path, of the link itself unless `follow`; None for a handle."""
    if isinstance(path, int) or path is None:
        return None
    path = os.fsdecode(path)
    if isinstance(handle, int) and handle >= 0 and not os.path.isabs(path):
        path = os.path.join(os.readlink(f"/proc/self/fd/{handle}"), path)
    if follow:
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def _is_compiler() -> bool:
    """Whether Numba, whose caches are pickled, makes this call."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("numba."):
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    if len(sys.argv) > 1:
        platform.processor()  # executes uname once
        _run_child(*json.loads(sys.argv[1]))
    _serve()
