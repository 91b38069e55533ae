"""What a case asks of a library that works from files to files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray


class FilesEngine(ABC):
    """One library. Inputs are Parquet files of a folder, with the columns `id` (a row's number, as text) and `text`."""

    name: ClassVar[str]
    note: ClassVar[str]
    does: ClassVar[tuple[str, ...]] = ("files",)

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @abstractmethod
    def deduplicate_files(self, inputs: Path, output: Path, threshold: float) -> Path:
        """Write the kept rows, both columns, below `output`; returns it."""

    @abstractmethod
    def kept_ids(self, output: Path) -> NDArray[np.int64]:
        """What the files of the kept rows hold."""
