"""The kernels' source: one text a file, its local includes expanded.

A compiler that is given one text cannot miss a change in a header, and neither can a cache that is keyed by it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from gpulsh.errors import BackendError

_INCLUDE = re.compile(r'#include "([\w.]+)"\n')


@cache
def kernel_folder() -> Path:
    """`kernels/` in the package, as wheels have it, or beside it, as the source tree does."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "kernels", package.parent / "kernels"):
        if (folder / "bits.cuh").is_file():
            return folder
    raise BackendError(f"the CUDA kernels are neither in {package} nor beside it; install gpulsh again")


def expanded_source(file: str, folder: Path | None = None) -> str:
    """`file`.cu with each local header once, where it is first included."""
    folder = folder or kernel_folder()
    seen: set[str] = set()

    def expand(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        text = (folder / name).read_text("utf-8").replace("#pragma once\n", "")
        return _INCLUDE.sub(lambda match: expand(match[1]), text)

    return expand(f"{file}.cu")
