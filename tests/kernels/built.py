"""What compilers made, kept by all that went into it: whoever asks first compiles, other processes wait for it."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

CACHE = Path(os.environ.get("GPULSH_KERNEL_CACHE", Path(__file__).parents[2] / ".cache" / "kernels"))


def built(given: Sequence[str], suffix: str, make: Callable[[Path], None]) -> Path:
    """The file that `make` writes to the path it is told, unless it was made before of the same."""
    name = hashlib.sha256("\0".join(given).encode()).hexdigest()[:32]
    found = CACHE / f"{name}{suffix}"
    if not found.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(CACHE / f"{name}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not found.exists():
                with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                    made = Path(folder) / f"made{suffix}"
                    make(made)
                    made.replace(found)
    return found
