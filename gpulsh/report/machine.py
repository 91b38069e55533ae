"""The machine of a run, and the versions of libraries."""

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
    """The system, the processor, the number of processors, and the memory; None if it is not known."""
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
    """The versions of gpulsh, Python and libraries, by their names in pip; None for a missing required library."""
    found: dict[str, str | None] = {"gpulsh": gpulsh.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        found[name] = _version(name)
    found.update({name: version for name in OPTIONAL if (version := _version(name)) is not None})
    return found


@cache  # looking up a version reads files
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
