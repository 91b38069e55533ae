"""The interface of every engine."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.engines.decider import Decider, Texts

NUM_PERM = 128
SHINGLE = 5

# (bands, rows) by threshold: gpulsh's defaults for 128, given to the engines that take any banding.
BANDING = {0.5: (42, 3), 0.7: (32, 4), 0.8: (21, 6), 0.9: (14, 9)}
# For those whose bands must divide 128: fewer bands, which makes them faster and find less.
EVEN_BANDS = {0.5: 32, 0.7: 32, 0.8: 16, 0.9: 16}


@dataclass(frozen=True)
class Decision:
    """keep bool [n]; where the engine says so, the document each one duplicates and the similarity."""

    keep: NDArray[np.bool_]
    witness: NDArray[np.int64] | None = None
    similarity: NDArray[np.float32] | None = None


class Engine(Decider):
    """One library. A method that is timed returns the library's own objects; the methods below it turn them into arrays
    when the clock has stopped."""

    does: ClassVar[tuple[str, ...]] = ("signature", "candidates", "deduplicate")

    def load(self, path: str, rows: int | None = None) -> Any:
        """The texts in the form this library takes fastest; here a list of str."""
        table = pq.read_table(path, columns=["text"])
        return (table if rows is None else table.slice(0, rows))["text"].to_pylist()

    def from_files(self, inputs: Path) -> Any:
        """The same of a folder of files; here one after another, for none of these libraries needs all at once."""
        return Texts(inputs)

    def keep(self, inputs: Path, threshold: float, scratch: Path) -> NDArray[np.bool_]:
        return self.decision(self.deduplicate(self.from_files(inputs), threshold)).keep

    @abstractmethod
    def text_to_signature(self, texts: Any) -> Any: ...

    @abstractmethod
    def signatures_to_pairs(self, signatures: Any, threshold: float) -> Any: ...

    @abstractmethod
    def deduplicate(self, texts: Any, threshold: float) -> Any: ...

    @abstractmethod
    def matrix(self, signatures: Any) -> NDArray[Any]:
        """[n, NUM_PERM], equal numbers where two documents agree."""

    @abstractmethod
    def pairs(self, found: Any) -> NDArray[np.int64] | None:
        """[m, 2], or None if the library says only which documents have a partner."""

    @abstractmethod
    def decision(self, result: Any) -> Decision: ...
