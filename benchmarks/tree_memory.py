"""The greatest proportional set (PSS) of a process and all its children, sampled: shared pages count once in all."""

from __future__ import annotations

import threading
from pathlib import Path


class TreeMemory:
    """A context that samples the tree of process `pid`; `peak` is in bytes."""

    def __init__(self, pid: int, seconds: float = 0.02) -> None:
        self.peak = 0
        self._pid, self._seconds, self._done = pid, seconds, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> TreeMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._seconds):
            self.peak = max(self.peak, sum(map(pss, tree(self._pid))))


def tree(pid: int) -> list[int]:
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [each for child in path.read_text().split() for each in tree(int(child))]
        except OSError:
            continue
    return found


def pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
