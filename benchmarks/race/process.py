"""The cost of a command with all its children, measured from outside: seconds, processor time, memory and disk."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tree_memory import pss, tree

TICK = 0.025  # seconds between two looks
LOOKS_A_DISK = 10  # looks at memory for one at the disk
GRACE = 10.0  # seconds for children to end after the command
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Taken:
    """Bytes are peaks. `failed` says why there is no answer."""

    seconds: float
    cpu_seconds: float
    memory: int
    disk: int
    failed: str | None = None


def measure(
    command: Sequence[str], scratch: Path, cores: int, limit: float, environment: Mapping[str, str] = os.environ
) -> Taken:
    """Runs the command on so many of the cores that this process may use, for at most `limit` seconds.

    Memory is the greater of the kernel's high-water mark of any one process (VmHWM) and, while there are several, the
    sum of their proportional sets, in which a page that they share counts once. Disk is the size of `scratch`, where
    the command runs; its output goes next to it.
    """
    # Children whose parent ended come to this process, so that their processor time is counted.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[-cores:]))
    before, began = _spent(), time.perf_counter()
    memory = disk = looks = 0
    said = scratch.with_suffix(".log")
    with said.open("wb") as log:
        process = subprocess.Popen(
            ["taskset", "--cpu-list", cpus, *command],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        ended = os.pidfd_open(process.pid)
        while not select.select([ended], [], [], TICK)[0]:
            memory = max(memory, _memory(process.pid))
            if looks % LOOKS_A_DISK == 0:
                disk = max(disk, size_of(scratch))
            looks += 1
            if time.perf_counter() - began > limit:
                os.killpg(process.pid, signal.SIGKILL)
                break
        seconds = time.perf_counter() - began
        os.close(ended)
        status = process.wait()
        _reap(process.pid)
    failed = None
    if seconds > limit:
        failed = f"not finished in {limit:g} s"
    elif status:
        failed = _last_line(said) or f"status {status}"
    return Taken(seconds, _spent() - before, memory, max(disk, size_of(scratch)), failed)


def _memory(pid: int) -> int:
    pids = tree(pid)
    together = sum(map(pss, pids)) if len(pids) > 1 else 0
    return max(together, *map(_high_water, pids))


def _high_water(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def size_of(folder: Path) -> int:
    """Bytes of all files; they and their folders may go while they are counted."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_size
    return total


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap(group: int) -> None:
    """Wait for the command's children to end; those that do not are ended. Other children of this process stay."""
    until = time.perf_counter() + GRACE
    with contextlib.suppress(ChildProcessError, ProcessLookupError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                if time.perf_counter() > until:
                    os.killpg(group, signal.SIGKILL)
                time.sleep(TICK)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else ""
