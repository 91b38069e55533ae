"""Peak memory of one piece of work, above what interpreter, imports and loaded texts already take."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from types import TracebackType


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def release_memory() -> None:
    """Return freed pages to the system: work that reuses them would otherwise look smaller than it is."""
    gc.collect()
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)


class PeakMemory:
    """Writing 5 to clear_refs sets the kernel's high-water mark (VmHWM) back to the present resident size, so the mark
    read at the end is exact: no sampling thread takes time from the work or misses a short peak."""

    peak: int = 0
    before: int = 0

    def __enter__(self) -> PeakMemory:
        release_memory()
        Path("/proc/self/clear_refs").write_text("5")
        self.before = _status("VmRSS")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.peak = max(0, _status("VmHWM") - self.before)
