"""The folder in which CuPy keeps compiled kernels: `~/.cupy`, unless it cannot, which would end the import of CuPy.

In a container there is often no home, or one that cannot be written to. Then they are kept below the temporary folder,
or, where nothing can be written, in memory. CUPY_CACHE_DIR, if set, stays.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from gpulsh.backends.kernel_cache import temporary_folder

FOLDER, IN_MEMORY = "CUPY_CACHE_DIR", "CUPY_CACHE_IN_MEMORY"  # what CuPy looks at


def find_folder(environment: MutableMapping[str, str]) -> None:
    """Name a folder that CuPy, which is not imported yet, can write to."""
    if FOLDER in environment or _can_be_written(os.path.expanduser("~/.cupy/kernel_cache")):
        return
    own = temporary_folder("cupy")
    if own is not None:
        environment[FOLDER] = own
    else:
        environment[FOLDER], environment[IN_MEMORY] = os.path.dirname(__file__), "1"  # one that is there


def _can_be_written(folder: str) -> bool:
    if not os.path.isabs(folder):  # of a user whom nobody knows: CuPy would make a folder named ~ where it stands
        return False
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
