"""FastSketchLSH: a C++ fast similarity sketch and a banded LSH, token lists from Python."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
from FastSketchLSH import LSH, FastSimilaritySketch
from numpy.typing import NDArray

from benchmarks.engines.base import EVEN_BANDS, NUM_PERM, Decision, Engine
from benchmarks.engines.shingles import shingles

# Its batch takes a list, not an iterator: so many documents at a time keep memory and cache misses down.
BATCH = 128


class FastSketchLSH(Engine):
    name = "FastSketchLSH"
    note = "`batch` over token lists; `query` in CSR form; `insert_and_query_duplicates` (flags)"

    def text_to_signature(self, texts: Iterable[str]) -> NDArray[np.uint64]:
        sketch = FastSimilaritySketch(size=NUM_PERM, seed=42)
        stream = shingles(texts)
        parts = []
        while batch := list(islice(stream, BATCH)):
            parts.append(sketch.batch(batch, num_threads=self.threads))
        return np.concatenate(parts)

    def _lsh(self, threshold: float) -> LSH:
        return LSH(num_perm=NUM_PERM, num_bands=EVEN_BANDS[threshold], num_threads=self.threads)

    def signatures_to_pairs(self, signatures: NDArray[np.uint64], threshold: float) -> Any:
        lsh = self._lsh(threshold)
        lsh.insert(signatures)
        return lsh.query(signatures, "csr")

    def deduplicate(self, texts: Iterable[str], threshold: float) -> NDArray[np.uint8]:
        return self._lsh(threshold).insert_and_query_duplicates(self.text_to_signature(texts))

    def matrix(self, signatures: NDArray[np.uint64]) -> NDArray[Any]:
        return signatures

    def pairs(self, found: Any) -> NDArray[np.int64]:
        flat, start = found
        j = np.repeat(np.arange(len(start) - 1), np.diff(np.asarray(start, np.int64)))
        both = np.stack([np.asarray(flat, np.int64), j], axis=1)
        return both[both[:, 0] < both[:, 1]]

    def decision(self, result: NDArray[np.uint8]) -> Decision:
        return Decision(keep=np.asarray(result) == 0)
