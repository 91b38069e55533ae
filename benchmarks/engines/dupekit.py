"""marin-dupekit: Rust from Arrow batches to the hashes of bands; its users group them and take components."""

from __future__ import annotations

from pathlib import Path

import dupekit
import numpy as np
import pyarrow.parquet as pq
from dupekit import Transformation
from numpy.typing import NDArray

from benchmarks.engines.base import BANDING
from benchmarks.engines.components import first_of_each
from benchmarks.engines.decider import BATCH, Decider, parquet_files

CHARACTERS = 27  # of a shingle: it knows none of words, and five words with the spaces between have as many


class Dupekit(Decider):
    name = "marin-dupekit"
    note = (
        "`CleanText`, `MinHash` over runs of 27 characters (about five words: it knows no word shingles), `MinHashLSH` "
        "with gpulsh's banding, on Arrow batches; equal bands joined by NumPy, components by SciPy; one thread"
    )

    def keep(self, inputs: Path, threshold: float, scratch: Path) -> NDArray[np.bool_]:
        bands, rows = BANDING[threshold]
        steps = [
            Transformation.CleanText("text", "clean"),
            Transformation.MinHash("clean", "signature", bands * rows, CHARACTERS, 42),
            Transformation.MinHashLSH("signature", "bands", bands),
            Transformation.SelectColumns(["bands"]),
        ]
        found = []
        for path in parquet_files(inputs):
            for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=["text"]):
                found.append(dupekit.transform(batch, steps)["bands"].flatten().to_numpy())
        values = np.concatenate(found)
        n = len(values) // bands
        order = np.argsort(values, kind="stable")
        document = order // bands
        same = np.flatnonzero(values[order][1:] == values[order][:-1])
        return first_of_each(n, document[same], document[same + 1])
