"""datatrove: its four stages, each a pool of processes that leaves files to the next."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401 - here, for the pools' processes to be forked with it
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

from benchmarks.engines.base import BANDING, SHINGLE
from benchmarks.engines.files import FilesEngine

WHOLE = -1  # of a file of signatures or pairs is read at once: the fastest `lines_to_buffer`


class Words(WordTokenizer):
    """The fastest tokenizer it can be given; its own ones are those of spaCy, NLTK and the like."""

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


class Datatrove(FilesEngine):
    name = "datatrove"
    note = (
        "`MinhashDedupSignature`, `Buckets`, `Cluster`, `Filter` by `LocalPipelineExecutor`, a forked process a core; "
        "`\\w+` tokens, case folded, no other normalization, 64-bit xxhash; JSON lines out, uncompressed, which it "
        "writes faster than Parquet"
    )

    def _stage(self, output: Path, name: str, tasks: int, steps: list[PipelineStep]) -> None:
        logs = str(output / "logs" / name)
        workers = min(self.threads, tasks)
        LocalPipelineExecutor(steps, tasks=tasks, workers=workers, logging_dir=logs, start_method="fork").run()

    def deduplicate_files(self, inputs: Path, output: Path, threshold: float) -> Path:
        bands, rows = BANDING[threshold]
        config = MinhashConfig(
            n_grams=SHINGLE,
            num_buckets=bands,
            hashes_per_bucket=rows,
            norm_config=FOLDING,
            hash_config=HashConfig(precision=64, hash_fc="xxhash"),
        )
        files = list(inputs.iterdir())
        reader = ParquetReader if files[0].suffix == ".parquet" else JsonlReader
        signatures, pairs, removed, data = (str(output / name) for name in ("signatures", "pairs", "removed", "data"))
        read: dict[str, Any] = {"data_folder": str(inputs)}
        if reader is ParquetReader:
            read["read_metadata"] = False
        sign = MinhashDedupSignature(signatures, config=config, language=Words())
        self._stage(output, "sign", len(files), [reader(**read), sign])
        buckets = MinhashDedupBuckets(signatures, pairs, config=config, lines_to_buffer=WHOLE)
        self._stage(output, "buckets", bands, [buckets])
        self._stage(output, "cluster", 1, [MinhashDedupCluster(pairs, removed, config=config, lines_to_buffer=WHOLE)])
        write = JsonlWriter(data, compression=None, adapter=_columns)
        self._stage(output, "filter", len(files), [reader(**read), MinhashDedupFilter(removed), write])
        return output
