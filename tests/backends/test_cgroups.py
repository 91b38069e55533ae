"""Memory and processors that control groups of version 1 and 2 leave to a process."""

import math
from pathlib import Path

import pytest

from gpulsh.backends import cgroups, parallel
from gpulsh.budget import parse_memory

GIB = 1 << 30
SLURM = {"": {"memory.max": "max", "cpu.max": "max 100000"}, "job/": {"memory.max": f"{4 * GIB}"}, "job/step/": {}}


@pytest.mark.parametrize(
    ("membership", "files", "memory", "processors"),
    [
        ("0::/\n", {"memory.max": f"{GIB}\n", "cpu.max": "150000 100000\n"}, GIB, 2),  # a container
        (
            "0::/job/step\n",
            {f"{group}{name}": text for group in SLURM for name, text in SLURM[group].items()},
            4 * GIB,
            99,
        ),
        (
            "4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/\n",
            {
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/a/memory.limit_in_bytes": f"{3 * GIB}",
                "memory/a/b/memory.limit_in_bytes": f"{5 * GIB}",
                "cpu/cpu.cfs_quota_us": "-1",
                "cpu/cpu.cfs_period_us": "100000",
                "cpu/c/cpu.cfs_quota_us": "300000",
                "cpu/c/cpu.cfs_period_us": "100000",
            },
            3 * GIB,
            3,
        ),
        ("0::/../../elsewhere\n", {}, math.inf, 99),  # above the namespace that this process sees
        (None, {"memory.max": f"{GIB}"}, math.inf, 99),
    ],
)
def test_the_least_limit_of_the_groups_holds(
    membership: str | None,
    files: dict[str, str],
    memory: float,
    processors: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if membership is not None:
        (tmp_path / "own").write_text(membership)
    monkeypatch.setattr(cgroups, "MEMBERSHIP", tmp_path / "own")
    monkeypatch.setattr(cgroups, "ROOT", tmp_path / "root")
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda process: range(99))
    cgroups.max_memory.cache_clear()
    cgroups.max_processors.cache_clear()
    try:
        assert (cgroups.max_memory(), parallel.processors()) == (memory, processors)
        assert parse_memory(None) <= memory / 2
    finally:
        cgroups.max_memory.cache_clear()
        cgroups.max_processors.cache_clear()
