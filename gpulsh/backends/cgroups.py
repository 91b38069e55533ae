"""Limits of this process's control groups, as a container or a job of Slurm has them: memory and processors.

A process is in one group of version 2, or in one for each controller of version 1 (cgroups(7)). The limits of the
groups above hold, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


@cache
def max_memory() -> float:
    """Bytes that this process and others of its group may use; infinity without a limit."""
    names = "memory.max", "memory.limit_in_bytes"
    return min((limit for group in _groups("memory") for limit in _numbers(group, *names)), default=math.inf)


@cache
def max_processors() -> float:
    """Processors whose time this process and others of its group may use, rounded up; infinity without a limit."""
    least = math.inf
    for group in _groups("cpu"):
        times = _numbers(group, "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
        if len(times) == 2 and times[0] > 0:  # a quota and its period; no quota is `max` or -1
            least = min(least, math.ceil(times[0] / times[1]))
    return least


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's groups, and of those above them, that may have the controller."""
    try:
        lines = MEMBERSHIP.read_text(encoding="utf-8").splitlines()
    except OSError:  # the system has no control groups
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            root = ROOT / controller if controllers else ROOT
            group = root / path.lstrip("/")
            yield from (group, *group.parents[: len(group.parts) - len(root.parts)])


def _numbers(group: Path, *names: str) -> list[int]:
    """The numbers in the group's files of these names, without those that read `max`."""
    found = []
    for name in names:
        try:
            words = (group / name).read_text(encoding="ascii").split()
        except OSError:
            continue
        found += [int(word) for word in words if word != "max"]
    return found
