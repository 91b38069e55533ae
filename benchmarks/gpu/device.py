"""The device, its driver and clock, and the versions of packages: the header of every record."""

from __future__ import annotations

import datetime
import platform
import re
import shutil
import subprocess
import tarfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parents[1] / "record"
PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "numpy", "numba", "pyarrow", "datasketch", "cudf-cu12", "cudf-cu13")
ASKED = ("driver_version", "clocks.max.sm", "clocks.sm", "clocks.max.memory", "power.limit", "pcie.link.gen.current",
         "pcie.link.width.current", "ecc.mode.current")  # fmt: skip


def describe(cupy: Any, command: str, commit: str | None = None) -> dict[str, Any]:
    """Leaves out unknown facts, so a missing tool is no error. Without a `commit`, asks git."""
    from gpulsh import __version__

    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(runtime.getDevice())
    return {
        "device": name_of(properties),
        "date": datetime.date.today().isoformat(),
        "command": command,
        "gpulsh": __version__,
        "commit": commit or _commit(),
        "multiprocessors": int(properties["multiProcessorCount"]),
        "L2_bytes": int(properties.get("l2CacheSize", 0)),
        "memory_GiB": round(properties["totalGlobalMem"] / 2**30, 1),
        "capability": f"{properties['major']}.{properties['minor']}",
        "cuda_driver": int(runtime.driverGetVersion()),
        "cuda_runtime": int(runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "smi": smi(),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "versions": {package: found for package in PACKAGES if (found := _version(package)) is not None},
    }


def name_of(properties: dict[str, Any]) -> str:
    name = properties["name"]
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def folder_of(header: dict[str, Any]) -> Path:
    """benchmarks/record/<device>/<date>"""
    return RECORDS / re.sub(r"[^a-z0-9]+", "-", header["device"].lower()).strip("-") / header["date"]


def pack(folder: Path, name: str, header: dict[str, Any]) -> Path:
    """All files of a folder, but for earlier archives, as one archive in it that `name` and the commit name."""
    path = folder / f"{name}-{header['commit'] or 'unknown'}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted(folder.iterdir()):
            if file.is_file() and not file.name.endswith(".tar.gz"):
                archive.add(file, f"{name}/{file.name}")
    return path


def smi() -> dict[str, str]:
    """The output of nvidia-smi for the first device; empty without it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    command = [program, "--id=0", f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return dict(zip(ASKED, values, strict=True)) if done.returncode == 0 and len(values) == len(ASKED) else {}


def _commit() -> str | None:
    root = Path(__file__).parents[2]
    try:
        command = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # no git
        return None
    return done.stdout.strip() or None


def _cpu() -> str:
    from benchmarks.machine import cores, cpu_model

    return f"{cpu_model()}, {cores()} cores"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
