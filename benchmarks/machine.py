"""The machine of a record: processor, system, versions."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gpulsh import __version__

PACKAGES = ("datasketch", "rensa", "FastSketchLSH", "daft", "datatrove", "text-dedup", "marin-dupekit",
            "pyspark", "xxhash", "numpy", "numba", "pyarrow", "licensedcode-data")  # fmt: skip


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def device_name() -> str:
    """Folder name of this machine's records: the processor and how many cores of it are ours."""
    return re.sub(r"[^a-z0-9]+", "-", f"{cpu_model()} {cores()} cores".lower()).strip("-")


def cores() -> int:
    return len(os.sched_getaffinity(0))


def _commit() -> str:
    """The commit of the tree that this file is in."""
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return _git("rev-parse", "--short", "HEAD") + ("+changes" if changed else "")


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def describe() -> dict[str, Any]:
    flags = next((x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("flags")), "")
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "vector": [f for f in ("avx2", "avx512f", "avx512bw", "avx512vl") if f" {f}" in flags],
        "memory_GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"gpulsh": __version__, **{p: _version(p) for p in PACKAGES}},  # of this tree, installed or not
        "commit": _commit(),
    }
