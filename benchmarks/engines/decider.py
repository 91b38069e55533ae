"""The interface of a library in the race: from files to the rows that stay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

BATCH = 1_000  # rows that are text at once


class Decider(ABC):
    """One library. Inputs are the Parquet files of a folder, with `id` (a row's number, as text) and `text`."""

    name: ClassVar[str]
    note: ClassVar[str]

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @abstractmethod
    def keep(self, inputs: Path, threshold: float, scratch: Path) -> NDArray[np.bool_]:
        """Which rows stay, bool [n]. Files that must be on disk are in `scratch`."""


class Texts:
    """The texts of a folder of Parquet files, one after another: few are in memory at once."""

    def __init__(self, inputs: Path) -> None:
        self.paths = parquet_files(inputs)

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=["text"]):
                yield from batch["text"].to_pylist()


def parquet_files(inputs: Path) -> list[Path]:
    return sorted(inputs.glob("*.parquet"))


def rows(inputs: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in parquet_files(inputs))


def without(n: int, dropped: Any) -> NDArray[np.bool_]:
    """All of n rows without the given numbers."""
    keep = np.ones(n, bool)
    keep[np.asarray(dropped, np.int64)] = False
    return keep


def only(n: int, kept: Any) -> NDArray[np.bool_]:
    """bool [n]: True for the rows of the given numbers."""
    keep = np.zeros(n, bool)
    keep[np.asarray(kept, np.int64)] = True
    return keep
