"""Record batches of an Arrow IPC file, mapped: a column is read from disk where it is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa


def map_batches(path: Path) -> list[Any]:
    """All record batches of the file, in place; they keep it open, also when its name is gone."""
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]
