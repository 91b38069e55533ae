"""Commands in processes that are killed, or refused a write, at a chosen call; and a disk that forgets.

A server imports everything once and forks a child for each request, so that a run costs milliseconds and its death is
that of a process: no handler runs, no buffer is flushed. A child that dies at a chosen call takes with it what was not
made durable before, as a power cut may: files lose the half of what was not synced, renames in a folder that was not
synced after them are undone.
"""

import builtins
import contextlib
import io
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from gpulsh.store import durable
from tests.support.server import Server

SWITCHES = ("fsync", "replace", "rename", "unlink", "rmdir")  # calls of `os` that change the state of a disk
CALLS = (*SWITCHES, "open", "write")  # those that may be refused


def spread(calls: Sequence[str], every: int, switches: str) -> list[int]:
    """The numbers of the calls to end at: every so many, and those that match `switches` with the ones behind them.

    A file takes three calls, fsync, replace and the folder's fsync: `every` must be no multiple of it.
    """
    chosen = {number for number, call in enumerate(calls, 1) if number % every == 1 % every}
    for number, call in enumerate(calls, 1):
        if re.search(switches, call):
            chosen |= {number, min(number + 1, len(calls))}
    return sorted(chosen)


class Disk:
    """Counts the calls on files in `folder`; call number `at` fails with `error`, or is the last."""

    def __init__(self, folder: str, at: int | None, error: int | None) -> None:
        self._folder, self._at, self._error = folder, at, error
        self._calls = (*(SWITCHES if error is None else CALLS), "syncfs")
        self._unsynced: set[int] = set()  # inodes
        self._appended: dict[int, int] = {}  # inode -> bytes that are durable, of what is appended to
        self._renames: list[tuple[str, str, str | None]] = []  # from, to, the file replaced
        self._real = {name: getattr(os, name) for name in SWITCHES}
        self._open = builtins.open
        self.made: list[str] = []

    def patched(self) -> contextlib.ExitStack:
        """Inside, every call goes through this object."""
        stack = contextlib.ExitStack()
        special = {"fsync": self._fsync_, "replace": self._replace_}
        calls = {name: special.get(name) or partial(self._call, name) for name in SWITCHES}
        stack.enter_context(mock.patch.multiple(os, **calls))
        stack.enter_context(mock.patch.object(builtins, "open", self._open_))
        stack.enter_context(mock.patch.object(durable, "FileIO", self._new_file))
        stack.enter_context(mock.patch.object(durable, "sync_file_system", self._syncfs_))
        return stack

    def called(self, name: str, path: Any) -> None:
        """Count a call before it is made."""
        if name not in self._calls:
            return
        self.made.append(f"{name} {os.path.basename(path)}")
        if len(self.made) == self._at:
            if self._error is not None:
                raise OSError(self._error, os.strerror(self._error), str(path))
            self._forget()
            os.kill(os.getpid(), signal.SIGKILL)

    def _forget(self) -> None:
        rename = self._real["rename"]
        for source, target, before in reversed(self._renames):
            if before is None:
                rename(target, source)
            else:
                os.link(target, source)
                rename(before, target)  # at once, for readers
        for path in list(Path(self._folder).rglob("*")):
            if path.is_file() and path.stat().st_ino in self._unsynced:
                half = path.read_bytes()[: path.stat().st_size // 2]
                os.remove(path)  # whoever mapped it would die of a truncation in place
                path.write_bytes(half)
            elif path.is_file() and (durable := self._appended.get(path.stat().st_ino)) is not None:
                os.truncate(path, (durable + path.stat().st_size) // 2)

    def _call(self, name: str, *paths: Any, **named: Any) -> None:
        self.called(name, paths[-1])
        self._real[name](*paths, **named)

    def _fsync_(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        self.called("fsync", path)
        os.fstat(handle)  # fails as fsync would; what is durable is kept account of here, and need not be
        self._unsynced.discard(os.fstat(handle).st_ino)
        self._appended.pop(os.fstat(handle).st_ino, None)
        if os.path.isdir(path):
            self._renames = [rename for rename in self._renames if os.path.dirname(rename[1]) != path]

    def _syncfs_(self, handle: int) -> None:
        self.called("syncfs", os.readlink(f"/proc/self/fd/{handle}"))
        self._unsynced.clear()
        self._appended.clear()
        self._renames.clear()

    def _replace_(self, source: Any, target: Any) -> None:
        self.called("replace", target)
        before = None
        if os.path.exists(target):
            before = f"{self._folder}.before-{len(self.made)}"
            os.link(target, before)
        self._real["replace"](source, target)
        self._renames.append((os.fspath(source), os.fspath(target), before))

    def _open_(self, path: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        ours = isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._folder)
        if ours and mode == "r+b":
            file = os.stat(path)
            self._appended.setdefault(file.st_ino, file.st_size)
        if not ours or mode not in ("wb", "xb"):
            return self._open(path, mode, *given, **named)
        return io.BufferedWriter(self._new_file(path, mode, named.get("opener")))

    def _new_file(self, path: Any, mode: str, opener: Any) -> io.FileIO:
        if not os.fspath(path).startswith(self._folder):
            return io.FileIO(path, mode, opener=opener)
        self.called("open", path)
        raw = _Written(self, os.fspath(path), mode, opener)
        self._unsynced.add(os.fstat(raw.fileno()).st_ino)
        return raw


class _Written(io.FileIO):
    def __init__(self, disk: Disk, path: str, mode: str, opener: Any) -> None:
        super().__init__(path, mode, opener=opener)
        self._disk = disk

    def write(self, data: Any) -> int:
        self._disk.called("write", self.name)
        return super().write(data)


@dataclass(frozen=True)
class Death:
    """The end of a run: its exit status, -9 if it was killed; its calls; its seconds; its error output."""

    status: int
    calls: list[str]
    seconds: float
    stderr: str

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL


class Mortals(Server):
    """The server, seen from a test."""

    module = "tests.support.mortal"

    def run(
        self,
        folder: Path,
        arguments: list[str],
        *,
        at: int | None = None,
        error: int | None = None,
        after: float | None = None,
        spill: int | None = None,
    ) -> Death:
        """Run `gpulsh ARGUMENTS`, or `step PATH NUMBER` of `index_steps`, which writes to `folder`.

        It is killed at its call number `at`, or that is refused with `error`, or it is killed `after` so many seconds.
        From `spill` bytes on segments in memory are written.
        """
        how = {"at": at, "error": error, "after": after, "spill": spill}
        return Death(**self.ask(folder=str(folder), arguments=arguments, **how))


def _serve() -> None:
    _prepare()
    for line in sys.stdin:
        asked = json.loads(line)
        err, out = os.pipe(), os.pipe()
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            os.dup2(err[1], 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            status, calls = 1, list[str]()
            try:
                status, calls = _live(asked)
            finally:
                os.write(out[1], json.dumps(calls).encode())
                os._exit(status)
        for pipe in (err, out):
            os.close(pipe[1])
        if asked["after"] is not None:
            time.sleep(asked["after"])
            os.kill(child, signal.SIGKILL)  # a child that has ended is there until it is waited for
        calls, stderr = (os.fdopen(pipe[0]).read() for pipe in (out, err))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seconds = time.monotonic() - start
        death = {"status": status, "calls": json.loads(calls or "[]"), "seconds": seconds, "stderr": stderr}
        print(json.dumps(death), flush=True)


def _prepare() -> None:
    """Load all modules that a child will need, by using them once."""
    from gpulsh.cli import main
    from tests.support import index_steps

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.jsonl").write_text('{"text": "a b c d e f"}\n')
        given = [f"{folder}/index", f"{folder}/a.jsonl", "--backend", index_steps.BACKEND]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert main(["index", "build", *given]) == 0
            assert main(["index", "query", *given]) == 0
            assert main(["index", "compact", given[0]]) == 0
            index_of_run = ["--index", f"{folder}/known", "--backend", index_steps.BACKEND]
            assert main(["dedup", f"{folder}/a.jsonl", "-o", f"{folder}/out", *index_of_run]) == 0


def _live(asked: dict[str, Any]) -> tuple[int, list[str]]:
    from gpulsh.cli import main
    from gpulsh.errors import OutputError
    from gpulsh.index import merging
    from tests.support import index_steps

    disk = Disk(asked["folder"], asked["at"], asked["error"])
    spill = merging.SPILL_BYTES if asked["spill"] is None else asked["spill"]
    verb, *given = asked["arguments"]
    with mock.patch.object(merging, "SPILL_BYTES", spill), disk.patched():
        status = 0
        if verb != "step":
            status = main(asked["arguments"])
        else:
            try:
                index_steps.live(Path(given[0]), int(given[1]))
            except OutputError as error:
                status = 1
                print(error, file=sys.stderr)
    sys.stderr.flush()
    return status, disk.made


if __name__ == "__main__":
    _serve()
