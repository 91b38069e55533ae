"""The versions that a result depends on."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

import gpulsh

LIBRARIES = ("numpy", "numba", "pyarrow", "fsspec", "orjson", "zstandard", "click", "rich")
OPTIONAL = ("cupy-cuda12x", "cupy-cuda13x", "cupy", "cudf-cu12", "cudf-cu13", "pandas", "polars", "jinja2", "ray")


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
