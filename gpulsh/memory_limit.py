"""`--memory`, enforced by the kernel: RLIMIT_DATA of commands that take it, of `report --by` and of each worker.

The work is cut to fit the budget. The kernel refuses more memory to a library that reads a hostile file.
Library calls set no limit: the process is the user's. Nor do runs on CUDA, whose driver maps far more than it uses.
"""

from __future__ import annotations

import errno
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpulsh.errors import BackendError, MemoryLimitError

STATUS = Path("/proc/self/status")
CODE_BYTES = 192 << 20  # bytes for compiled code, and for the stacks and arenas of library threads
THREAD_BYTES = 16 << 20  # bytes for the stack and arena of each thread of gpulsh


def limit_memory(memory: int, threads: int) -> tuple[int, int]:
    """Let this process allocate `memory` more bytes, besides its code. Returns the earlier limits.

    The kernel counts private memory that can be written, touched or not (setrlimit(2), RLIMIT_DATA).
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    soft, hard = _allocated_bytes() + memory + CODE_BYTES + THREAD_BYTES * threads, before[1]
    most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_DATA, (min(soft, most), hard))
    return before


@contextmanager
def memory_limit(memory: int, threads: int) -> Iterator[None]:
    """`limit_memory` until the context ends."""
    before = limit_memory(memory, threads)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def check_room(place: str, need: int) -> None:
    """MemoryLimitError if `need` more bytes are above the limit, for a library that would end the process there."""
    if need > _bytes_left():
        raise memory_error(place)


def fitting_threads(most: int) -> int:
    """How many threads, at least one, may start at once in half of the memory below the limit."""
    return max(1, min(most, _bytes_left() // (2 * THREAD_BYTES)))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether the system gave no memory. Arrow's codecs raise an OSError without a number then."""
    while error is not None and not isinstance(error, BackendError):  # of a device
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, OSError) and (error.errno == errno.ENOMEM or "not enough memory" in str(error)):
            return True
        error = error.__cause__
    return False


def memory_error(place: str) -> MemoryLimitError:
    """The error of a file or a stage, `place`, that got no more memory."""
    soft, space = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS))
    remedy = "; give a larger --memory"
    if space != resource.RLIM_INFINITY and not 0 <= soft <= space:
        soft, remedy = space, " (ulimit -v); raise that limit, or give a smaller --memory"
    if soft == resource.RLIM_INFINITY:
        return MemoryLimitError(f"{place}: the system has no more memory; free some, or give a smaller --memory")
    return MemoryLimitError(
        f"{place}: needs more memory than the {soft >> 20} MiB that this process may allocate{remedy}"
    )


def _bytes_left() -> int:
    """The bytes that this process may still allocate."""
    soft = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft - _allocated_bytes()


def _allocated_bytes() -> int:
    """The bytes that the kernel counts for this process."""
    try:
        status = STATUS.read_text(encoding="ascii")
    except FileNotFoundError:
        raise BackendError(f"{STATUS} is missing, and gpulsh reads there how much memory it has; mount /proc") from None
    found = re.search(r"VmData:\s+(\d+) kB", status)
    return int(found[1]) << 10 if found else 0
