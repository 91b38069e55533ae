"""Daft: Rust from text to signature (`normalize`, `minhash`), banding by its joins, components by SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import daft
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from daft import DataFrame, col
from daft.functions import chunk, explode, hash, minhash, normalize
from numpy.typing import NDArray

from benchmarks.engines.base import BANDING, NUM_PERM, SHINGLE, Decision, Engine
from benchmarks.engines.components import first_of_each


class Daft(Engine):
    name = "Daft"
    note = "`normalize` + `minhash` (xxh3); bands exploded and hashed, joined by Daft; components of star edges"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        # Its default of 131,072 rows a morsel leaves a second core without work on such corpora.
        daft.set_execution_config(default_morsel_size=2048)

    def load(self, path: str, rows: int | None = None) -> pa.Table:
        table = pq.read_table(path, columns=["text"])
        table = (table if rows is None else table.slice(0, rows)).combine_chunks()
        return table.append_column("id", pa.array(np.arange(len(table))))

    def from_files(self, inputs: Path) -> pa.Table:
        return self.load(str(inputs))

    def _signatures(self, texts: pa.Table) -> DataFrame:
        frame = daft.from_arrow(texts)
        clean = normalize(col("text"), remove_punct=True, lowercase=True, white_space=True)
        signature = minhash(clean, num_hashes=NUM_PERM, ngram_size=SHINGLE, hash_function="xxhash3_64")
        return frame.select("id", signature.alias("signature"))

    def text_to_signature(self, texts: pa.Table) -> DataFrame:
        return self._signatures(texts).collect()

    def _bands(self, signatures: DataFrame, threshold: float) -> DataFrame:
        """(id, band hash), a row a band; chunk leaves out the excess of num_perm over bands x rows. The same values in
        different bands meet too: too rare to matter."""
        _, rows = BANDING[threshold]
        used = daft.DataType.fixed_size_list(daft.DataType.uint32(), NUM_PERM)
        band = signatures.select("id", explode(chunk(col("signature").cast(used), rows)).alias("band"))
        return band.select("id", hash(col("band")).alias("band")).collect()

    def signatures_to_pairs(self, signatures: DataFrame, threshold: float) -> DataFrame:
        left = self._bands(signatures, threshold)
        right = left.select(col("id").alias("other"), "band")
        return left.join(right, on="band").where(col("id") < col("other")).select("id", "other").distinct().collect()

    def deduplicate(self, texts: pa.Table, threshold: float) -> NDArray[np.bool_]:
        bands = self._bands(self._signatures(texts), threshold)
        first = bands.groupby("band").agg(col("id").min().alias("first"))
        edges = bands.join(first, on="band").where(col("id") != col("first")).select("id", "first").to_arrow()
        i, j = edges["id"].to_numpy(), edges["first"].to_numpy()
        return first_of_each(len(texts), i, j)

    def matrix(self, signatures: DataFrame) -> NDArray[Any]:
        table = signatures.to_arrow().sort_by("id")
        return np.asarray(table["signature"].combine_chunks().flatten()).reshape(-1, NUM_PERM)

    def pairs(self, found: DataFrame) -> NDArray[np.int64]:
        table = found.to_arrow()
        return np.stack([table["id"].to_numpy(), table["other"].to_numpy()], axis=1)

    def decision(self, result: NDArray[np.bool_]) -> Decision:
        return Decision(keep=result)
