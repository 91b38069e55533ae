"""The interface of a library that has SimHash or searches by Hamming distance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Engine


class BitsEngine(ABC):
    """One library. Signatures have 64 bits: uint64 [n]."""

    name: ClassVar[str]
    note: ClassVar[str]
    does: ClassVar[tuple[str, ...]] = ("near_pairs",)

    def __init__(self, threads: int) -> None:
        self.threads = threads

    load = Engine.load

    def signatures(self, words: NDArray[np.uint64]) -> Any:
        """Signatures in the form this library takes fastest."""
        return words

    @abstractmethod
    def near_pairs(self, signatures: Any, distance: int) -> NDArray[np.int64]:
        """[m, 2], in any order: all pairs of signatures that differ in at most `distance` bits."""
