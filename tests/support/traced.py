"""The memory of an action, as Python counts it, without allocations of libraries; and of mapped files."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Their modules would count where they are first imported: Numba's, and those that Arrow imports at need.
import pandas as pd  # noqa: F401

import gpulsh.backends.cpu  # noqa: F401


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Check that the action inside takes less than `size` bytes."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def bytes_touched(kind: str) -> int:
    """The bytes that this process has touched in mapped files of a kind."""
    touched = inside = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if "-" in name:
            inside = Path(rest.split(" ")[-1]).name.startswith(f"{kind}-")
        elif inside and name == "Rss:":
            touched += int(rest.split()[0]) << 10
    return touched
