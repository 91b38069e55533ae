"""gpulsh: Arrow in, exact verification and a kept witness out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import gpulsh
from benchmarks.engines.base import BANDING, NUM_PERM, SHINGLE, Decision, Engine
from benchmarks.engines.decider import Decider, rows, without
from gpulsh.cli import main

MEMORY = "512MiB"


class Gpulsh(Engine):
    name = "gpulsh"
    note = (
        "`MinHash.from_texts`; `Banding` + `candidate_pairs`; `deduplicate`, verified exactly; `deduplicate_files`;"
        " `SimHash.from_texts`; `HammingTables.pairs`"
    )
    does = (*Engine.does, "files", "near_pairs", "text_to_bits")
    backend = "cpu"

    def load(self, path: str, rows: int | None = None) -> pa.Array:
        table = pq.read_table(path, columns=["text"])
        column = (table if rows is None else table.slice(0, rows))["text"].combine_chunks()
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def from_files(self, inputs: Path) -> pa.ChunkedArray:
        """As they are read: put together they would take their size once more."""
        return pq.read_table(inputs, columns=["text"])["text"]

    def text_to_signature(self, texts: pa.Array) -> Any:
        return gpulsh.MinHash(num_perm=NUM_PERM, seed=1).from_texts(
            texts, shingling=gpulsh.Shingling(unit="word", size=SHINGLE), backend=self.backend, threads=self.threads
        )

    def signatures_to_pairs(self, signatures: Any, threshold: float) -> Any:
        bands, rows = BANDING[threshold]
        digests = gpulsh.Banding(bands=bands, rows=rows)(signatures, backend=self.backend, threads=self.threads)
        return gpulsh.candidate_pairs(digests, backend=self.backend, threads=self.threads)

    def deduplicate(self, texts: pa.Array, threshold: float, **settings: Any) -> Any:
        return gpulsh.deduplicate(
            texts, threshold=threshold, num_perm=NUM_PERM, backend=self.backend, threads=self.threads, **settings
        )

    def deduplicate_files(self, inputs: Path, output: Path, threshold: float) -> Path:
        gpulsh.deduplicate_files(
            inputs, output, threshold=threshold, num_perm=NUM_PERM, backend=self.backend, threads=self.threads
        )
        return output

    def text_to_bits(self, texts: pa.Array, size: int) -> Any:
        shingling = gpulsh.Shingling(unit="char", size=size)
        return gpulsh.SimHash().from_texts(texts, shingling=shingling, backend=self.backend, threads=self.threads)

    def signatures(self, words: NDArray[np.uint64]) -> gpulsh.BitSignatures:
        return gpulsh.BitSignatures(words[:, None])

    def near_pairs(self, signatures: gpulsh.BitSignatures, distance: int) -> Any:
        search = gpulsh.HammingTables(distance=distance)
        return search.pairs(signatures, backend=self.backend, threads=self.threads)

    def matrix(self, signatures: Any) -> NDArray[Any]:
        return np.asarray(signatures)

    def pairs(self, found: Any) -> NDArray[np.int64]:
        return np.asarray(found)

    def decision(self, result: Any) -> Decision:
        return Decision(keep=result.keep, witness=result.duplicate_of, similarity=result.similarity)


class GpulshCommand(Decider):
    name = "gpulsh dedup"
    note = (
        f"the command with `--write duplicates --memory {MEMORY}`, the least budget that it accepts, verified exactly:"
        " the list of duplicates and the report"
    )

    def keep(self, inputs: Path, threshold: float, scratch: Path) -> NDArray[np.bool_]:
        out = scratch / "out"
        given = ["dedup", str(inputs), "-o", str(out), "--write", "duplicates", "--id-column", "id", "--backend", "cpu"]
        told = ["--threshold", str(threshold), "--threads", str(self.threads), "--memory", MEMORY]
        if status := main([*given, *told]):
            raise SystemExit(status)
        dropped = pq.read_table(out / "duplicates.parquet", columns=["id"])["id"]
        return without(rows(inputs), [int(number) for number in dropped.to_pylist()])
