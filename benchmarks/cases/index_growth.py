"""The cost of a document added to an index: processor time by the size of the index, memory and disk.

Documents are short and unrelated, so that looking up takes the largest part. A slow machine must not look like growth.
So the last documents are added in turns to the index and to an earlier, small copy of it. Each comes first in every
other turn, because the first one finds the documents in no cache.
"""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench, line
from gpulsh import Index

TITLE = "An index that grows, processor time of a document"
WORK: dict[str, Any] = {}
DOCUMENTS, SMALL = 8_000_000, 1_000_000
CHUNK = 100_000
TURNS = 10  # chunks, of which two have what five are written with
TOKENS, TOKEN = 8, 10  # a document, and bytes of one with a space
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", np.uint8)


def run(bench: Bench) -> dict[str, Any]:
    documents = bench.documents or DOCUMENTS
    small = min(SMALL, documents // 8)
    folder, copy = bench.work / "growing", bench.work / "small"
    for path in (folder, copy):
        shutil.rmtree(path, ignore_errors=True)
    chunks, rows = _chunks(min(CHUNK, small // 2)), []
    with Index.create(folder, backend="cpu", threads=max(bench.threads)) as index:
        alone: list[float] = []
        size = min(CHUNK, small // 2)
        for held in range(size, documents - TURNS * size + 1, size):
            alone.append(_seconds(index, *next(chunks)))
            if held == small:
                index.save()
                shutil.copytree(folder, copy)
            if held % small == 0:
                rows.append(_row(index, folder, mean(alone), size))
                bench.say(f"  {held:,} documents, {rows[-1]['us_a_document']} us")
                alone = []
        index.save()
        with Index.open(copy, check=False, backend="cpu", threads=max(bench.threads)) as other:
            spent: dict[Index, list[float]] = {index: [], other: []}
            for number, chunk in enumerate(islice(chunks, TURNS)):
                for one in (index, other) if number % 2 else (other, index):
                    spent[one].append(_seconds(one, *chunk))
            large, less = mean(spent[index]), mean(spent[other])
            rows += [_row(index, folder, large, size, "by turns"), _row(other, copy, less, size, "by turns")]
    statement = f"a document at {documents:,} / at {small:,}, processor time"
    lines = [line(statement, round(large / less, 3), 1.05, at_least=False)]
    return {"rows": rows, "checks": [], "lines": lines, "raw": []}


def _chunks(size: int) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Keys and texts of documents without a shingle in common."""
    chance, start = np.random.default_rng(5), 0
    offset = np.arange(size + 1, dtype=np.int64) * TOKENS * TOKEN
    while True:
        letters = LETTERS[chance.integers(0, len(LETTERS), (size, TOKENS, TOKEN), np.uint8)]
        letters[..., -1] = ord(" ")
        texts = pa.LargeStringArray.from_buffers(size, pa.py_buffer(offset), pa.py_buffer(letters.tobytes()))
        yield pa.array([f"crawl.parquet:{row}" for row in range(start, start + size)], pa.large_string()), texts
        start += size


def _seconds(index: Index, keys: pa.Array, texts: pa.Array) -> float:
    began = time.process_time()
    added = index.add(keys, texts)
    took = time.process_time() - began
    assert added.keep.all(), "unrelated documents were dropped"
    return took


def _row(index: Index, folder: Path, seconds: float, size: int, how: str = "") -> dict[str, Any]:
    facts = index.collection.facts()
    return {
        "documents": facts["documents"],
        "added": how or "alone",
        "us_a_document": round(seconds / size * 1e6, 2),
        "segments": facts["segments"],
        "GB_on_disk": round(sum(path.stat().st_size for path in folder.iterdir()) / 1e9, 2),
        "peak_GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }
