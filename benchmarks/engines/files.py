"""The interface of a library that works from files to files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar


class FilesEngine(ABC):
    """One library. Inputs are Parquet or .jsonl files of a folder, with `id` (a row's number, as text) and `text`."""

    name: ClassVar[str]
    note: ClassVar[str]
    does: ClassVar[tuple[str, ...]] = ("files",)

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @abstractmethod
    def deduplicate_files(self, inputs: Path, output: Path, threshold: float) -> Path:
        """Write the kept rows, both columns, as Parquet or .jsonl to `output`/data; returns `output`."""
