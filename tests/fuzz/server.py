"""A process that has imported and compiled everything and forks a child for each command.

So a command costs what it does and not what Python's start does, and its death is that of a process. The child's time
and memory are watched from outside: it is killed when it takes much more than it may, and says where it was.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

POLL = 0.004  # seconds
MOST_MEMORY = 1600 << 20  # beyond which it is killed
MOST_FILE = 3 << 30  # of one file that it writes
PAGE = resource.getpagesize()
TICKS = os.sysconf("SC_CLK_TCK")
READY = "ready\n"
SHOWN = 200_000  # bytes of what it says


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int  # negative: by that signal
    out: str
    error: str
    seconds: float
    busy: float  # seconds of a processor
    memory: int  # bytes at most at once, of the whole process
    killed: str  # why, empty where it ended by itself
    broke: list[str] = field(default_factory=list)  # what it did and must not


class Server:
    """The process, seen from outside: a context."""

    def __init__(self, nice: int = 0) -> None:
        self._nice = nice

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.server", str(self._nice)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None and self._process.stdout.readline() == READY
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def run(
        self,
        folder: Path,
        arguments: list[str],
        *,
        writes: list[str],
        limit: float = 20.0,
        target: str = "gpulsh.cli:main",
        end_at: int | None = None,
    ) -> Ended:
        """`target(arguments)` in `folder`, for at most `limit` seconds of a processor, and as long without using one.

        With `end_at` it is interrupted at that of its renames, and keeps what it did for `--resume`.
        """
        asked = {"folder": str(folder), "arguments": arguments, "writes": writes, "limit": limit}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({**asked, "target": target, "end_at": end_at}) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


def _serve() -> None:
    os.nice(int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prepare()
    print(READY, end="", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print(json.dumps(_lived(json.loads(line), Path(folder))), flush=True)


def _lived(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    names = [folder / name for name in ("out", "error", "broke")]
    handles = [os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600) for name in names]
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _live(asked, handles)
    killed = _watch(child, asked["limit"])
    _, status, used = os.wait4(child, 0)
    seconds = time.monotonic() - start
    texts = [os.pread(handle, SHOWN, 0).decode("utf-8", "replace") for handle in handles]
    for handle in handles:
        os.close(handle)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "out": texts[0],
        "error": texts[1],
        "seconds": round(seconds, 3),
        "busy": round(used.ru_utime + used.ru_stime, 3),
        "memory": used.ru_maxrss << 10,
        "killed": killed,
        "broke": texts[2].splitlines(),
    }


def _watch(child: int, limit: float) -> str:
    """Wait until it has ended, or must; why it must."""
    start = moved = time.monotonic()
    pause, before = 0.0005, 0.0
    while True:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return ""
        resident, busy = _taken(child)
        why, now = "", time.monotonic()
        if busy > before:
            moved, before = now, busy
        if busy > limit or now - moved > limit:
            why = f"took {busy:.1f} s of a processor, {now - start:.1f} s of the clock"
        elif resident > MOST_MEMORY:
            why = f"took {resident >> 20} MiB"
        if why:
            os.kill(child, signal.SIGABRT)  # faulthandler tells where every thread is
            time.sleep(0.2)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            return why
        time.sleep(pause)
        pause = min(2 * pause, POLL)


def _taken(child: int) -> tuple[int, float]:
    try:
        resident = int(Path(f"/proc/{child}/statm").read_text().split()[1]) * PAGE
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    except (OSError, IndexError):
        return 0, 0.0
    return resident, (int(fields[11]) + int(fields[12])) / TICKS


def _live(asked: dict[str, Any], handles: list[int]) -> None:
    """The child's whole life."""
    from tests.fuzz import guard

    status = 70
    told: list[str] = []
    try:
        for number, handle in enumerate(handles[:2], 1):
            os.dup2(handle, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(asked["folder"])
        os.environ["TMPDIR"] = os.path.join(os.getcwd(), "tmp")
        tempfile.tempdir = None
        faulthandler.enable(os.fdopen(os.dup(2), "w"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))
        os.fsync = lambda handle: None  # nothing here has to survive a power cut
        module, _, name = asked["target"].partition(":")
        command = getattr(importlib.import_module(module), name)
        if asked["end_at"] is not None:
            _end_at(asked["end_at"])
        guard.watch(Path.cwd(), [*asked["writes"], "tmp"], told)
        status = command(asked["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os.write(handles[2], "\n".join(told).encode("utf-8", "replace"))
        os._exit(status)


def _end_at(number: int) -> None:
    """The renames from this one on are interrupts; what was done is worth going on with."""
    from gpulsh.run.output import folder as output

    def replace(*given: Any, **named: Any) -> None:
        nonlocal number
        number -= 1
        if number < 0:
            raise KeyboardInterrupt
        real(*given, **named)

    real, os.replace = os.replace, replace
    output.worth_resuming = lambda manifest: True


def _prepare() -> None:
    """Everything that a child may need is loaded and compiled once, by using it."""
    from gpulsh.cli import main
    from tests.fuzz import case, formats

    os.fsync = lambda handle: None
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as told,
        tempfile.TemporaryDirectory() as name,
        contextlib.chdir(name),
    ):
        case.lay(Path(name))
        formats.examples(Path(name, "in"))
        small = ["--memory", "512MiB", "--overwrite"]
        ways = [
            *(["--backend", "cpu"], ["--shingle", "char:5", "--backend", "cpu", "--on-error", "skip"]),
            ["--verify", "signature", "--backend", "cpu", "--threads", "1", "--json"],
        ]
        for number, given in enumerate(("in", *sorted(str(path) for path in Path("in").iterdir()))):
            for more in ways[: 3 if number == 0 else 2]:
                assert main(["dedup", given, "-o", f"out{number}", *small, *more]) == 0, told.getvalue()[-2000:]
        slow = ["--backend", "reference", "--resolve", "components", "--keep", "longest"]
        assert main(["dedup", "in/a.jsonl", "-o", "slow", *small, *slow]) == 0, told.getvalue()
        for verb, file in (("build", "a.jsonl"), ("add", "b.jsonl.gz"), ("query", "c.jsonl.zst")):
            assert main(["index", verb, "index", f"in/{file}", "--backend", "cpu"]) == 0, told.getvalue()
        indexed = ["in/c.jsonl.zst", "--index", "index", "--backend", "cpu", "--memory", "512MiB"]
        assert main(["dedup", *indexed, "-o", "last"]) == 0, told.getvalue()
        assert main(["index", "compact", "index"]) == 0, told.getvalue()


if __name__ == "__main__":
    _serve()
