"""The greatest of the sampled memory of a process and all its children.

That is the sum of their proportional sets (PSS), in which shared pages count once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self


class Peak:
    """A context that samples what `look` gives; `peak` is the greatest."""

    def __init__(self, look: Callable[[], int], seconds: float) -> None:
        self.peak = 0
        self._look, self._seconds, self._done = look, seconds, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._seconds):
            self.peak = max(self.peak, self._look())


class TreeMemory(Peak):
    """The memory of the tree of process `pid`, in bytes."""

    def __init__(self, pid: int, seconds: float = 0.02) -> None:
        super().__init__(lambda: sum(map(pss, tree(pid))), seconds)


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
