"""text-dedup's MinHash: its command, which keeps the first document of each component of equal bands."""

from __future__ import annotations

from pathlib import Path

import datasets
import numpy as np
from numpy.typing import NDArray
from text_dedup.minhash import main

from benchmarks.engines.base import BANDING, NUM_PERM, SHINGLE
from benchmarks.engines.decider import Decider, only, rows


class TextDedupMinHash(Decider):
    name = "text-dedup"
    note = (
        "its command `text_dedup.minhash` with gpulsh's banding, xxh3 and 32 bits, its fastest, a process a core; it "
        "writes the kept documents"
    )

    def keep(self, inputs: Path, threshold: float, scratch: Path) -> NDArray[np.bool_]:
        bands, rows_of_band = BANDING[threshold]
        settings = {
            "path": "parquet", "data_dir": inputs, "split": "train", "cache_dir": scratch / "cache",
            "output": scratch / "kept", "num_proc": self.threads, "column": "text", "ngram": SHINGLE, "min_length": 0,
            "num_perm": NUM_PERM, "b": bands, "r": rows_of_band, "hash_func": "xxh3", "hash_bits": "32",
        }  # fmt: skip
        main([word for name, value in settings.items() for word in (f"--{name}", str(value))], standalone_mode=False)
        kept = datasets.load_from_disk(str(scratch / "kept"))["id"]
        return only(rows(inputs), [int(number) for number in kept])
