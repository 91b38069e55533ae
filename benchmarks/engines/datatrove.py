"""datatrove: its four stages, each a pool of processes that leaves files to the next."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq  # here, for the pools' processes to be forked with it
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader, ParquetReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.hashing import HashConfig
from datatrove.utils.text import TextNormConfig
from datatrove.utils.word_tokenizers import WordTokenizer
from numpy.typing import NDArray

from benchmarks.engines.base import BANDING, SHINGLE
from benchmarks.engines.decider import Decider, parquet_files, without
from benchmarks.engines.files import FilesEngine

WHOLE = -1  # of a file of signatures or pairs is read at once: the fastest `lines_to_buffer`


class Words(WordTokenizer):
    """The fastest tokenizer it can be given; its own tokenizers come from spaCy, NLTK and others."""

    find = re.compile(r"\w+").findall

    def word_tokenize(self, text: str) -> list[str]:
        return Words.find(text)

    def sent_tokenize(self, text: str) -> list[str]:
        raise NotImplementedError

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        raise NotImplementedError


# Case alone is folded: what else it would normalize takes longer, and `\w+` sees to punctuation and space.
FOLDING = TextNormConfig(
    lowercase=True, norm_whitespace=False, remove_punctuation=False, norm_unicode_diacritics=False, norm_numbers=False
)


def _columns(writer: JsonlWriter, document: Document) -> dict[str, Any]:
    """The row as it was read; its own adapter copies every document deeply first."""
    return {"id": document.id, "text": document.text}


class Datatrove(FilesEngine, Decider):
    name = "datatrove"
    note = (
        "`MinhashDedupSignature`, `Buckets`, `Cluster`, `Filter` by `LocalPipelineExecutor`, a forked process a core; "
        "`\\w+` tokens, case folded, no other normalization, 64-bit xxhash; JSON lines out, uncompressed, which it "
        "writes faster than Parquet; the race ends before `Filter`"
    )

    def _stage(self, output: Path, name: str, tasks: int, steps: list[PipelineStep]) -> None:
        logs = str(output / "logs" / name)
        workers = min(self.threads, tasks)
        LocalPipelineExecutor(steps, tasks=tasks, workers=workers, logging_dir=logs, start_method="fork").run()

    def _reader(self, inputs: Path) -> PipelineStep:
        if next(inputs.iterdir()).suffix == ".parquet":
            return ParquetReader(str(inputs), read_metadata=False)
        return JsonlReader(str(inputs))

    def _removed(self, inputs: Path, output: Path, threshold: float) -> str:
        """The first three stages: a folder with the numbers of dropped rows, one file per input file."""
        bands, rows = BANDING[threshold]
        config = MinhashConfig(
            n_grams=SHINGLE,
            num_buckets=bands,
            hashes_per_bucket=rows,
            norm_config=FOLDING,
            hash_config=HashConfig(precision=64, hash_fc="xxhash"),
        )
        signatures, pairs, removed = (str(output / name) for name in ("signatures", "pairs", "removed"))
        sign = MinhashDedupSignature(signatures, config=config, language=Words())
        self._stage(output, "sign", len(list(inputs.iterdir())), [self._reader(inputs), sign])
        buckets = MinhashDedupBuckets(signatures, pairs, config=config, lines_to_buffer=WHOLE)
        self._stage(output, "buckets", bands, [buckets])
        self._stage(output, "cluster", 1, [MinhashDedupCluster(pairs, removed, config=config, lines_to_buffer=WHOLE)])
        return removed

    def deduplicate_files(self, inputs: Path, output: Path, threshold: float) -> Path:
        removed = MinhashDedupFilter(self._removed(inputs, output, threshold))
        write = JsonlWriter(str(output / "data"), compression=None, adapter=_columns)
        self._stage(output, "filter", len(list(inputs.iterdir())), [self._reader(inputs), removed, write])
        return output

    def keep(self, inputs: Path, threshold: float, scratch: Path) -> NDArray[np.bool_]:
        removed = Path(self._removed(inputs, scratch, threshold))
        dropped, first = [np.empty(0, np.int64)], 0
        for number, path in enumerate(parquet_files(inputs)):
            if (marks := removed / f"{number:06d}.remove").exists():
                dropped.append(first + np.fromfile(marks, "<u4").astype(np.int64))
            first += pq.read_metadata(path).num_rows
        return without(first, np.concatenate(dropped))
