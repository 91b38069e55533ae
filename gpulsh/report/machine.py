"""What a result was made on, beside the backend's device: the machine, and the versions of libraries."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import gpulsh
from gpulsh.backends.parallel import processors

LIBRARIES = ("numpy", "numba", "pyarrow", "fsspec", "orjson", "zstandard", "click", "rich")
OPTIONAL = ("cupy-cuda12x", "cupy-cuda13x", "cupy", "cudf-cu12", "cudf-cu13", "pandas", "polars", "jinja2", "ray")


def machine() -> Mapping[str, Any]:
    """The system, the processor, how many of them, and memory; None where that is not known."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
    except OSError:
        model = None
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = None
    return {
        "system": platform.platform(),
        "processor": model or platform.machine(),
        "processors": processors(),
        "memory_bytes": memory,
    }


def versions() -> dict[str, str | None]:
    """gpulsh, Python, and each library by the name pip knows it by; None for a needed one that is missing."""
    found: dict[str, str | None] = {"gpulsh": gpulsh.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        found[name] = _version(name)
    found.update({name: version for name in OPTIONAL if (version := _version(name)) is not None})
    return found


@cache  # what is installed is looked up in files
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
