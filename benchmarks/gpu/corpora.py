"""Texts made on the spot, seeded, at the speed of memory: the same bytes on every machine with any number of threads.

A document is a row of phrases. A phrase is 23 bytes, so that documents and words begin at every alignment; its words
are drawn by Zipf's law from 20,000, and phrases by Zipf's law with exponent 3/4 from 65,536. Of ten documents one is
a near-duplicate (another last phrase) and one an exact copy of the document before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import cores
from gpulsh.arrays import TextBatch

Script = Literal["latin", "cjk", "mixed"]
PHRASE = 23  # bytes
PHRASES = 1 << 16
BLOCK = 1 << 21  # phrases drawn by one seed
WORDS = 4.0  # of a Latin phrase, about: 5.6 bytes per word and its space
TWEET = 6  # phrases: 138 bytes
SHINGLES_50 = 14  # phrases: about 54 words, so 50 shingles of 5
PAGE = 100  # phrases: 2300 bytes, about 400 words


@cache
def phrases(script: Script) -> NDArray[np.uint8]:
    """uint8 [65536, 23]"""
    if script == "mixed":
        table = phrases("latin").copy()
        table[1::2] = phrases("cjk")[1::2]
        return table
    generator = np.random.default_rng(5)
    if script == "cjk":  # 7 characters, each a token, and a comma
        rank = np.minimum(generator.zipf(1.3, (PHRASES, 7)), 6000) - 1
        encoded = np.array([[*chr(0x4E00 + i).encode()] for i in range(6000)], np.uint8)
        ends = np.broadcast_to(np.frombuffer(b", ", np.uint8), (PHRASES, 2))
        return np.concatenate((encoded[rank].reshape(PHRASES, 21), ends), axis=1)
    letters = generator.integers(ord("a"), ord("z") + 1, (20_000, 9), np.uint8)
    vocabulary = [letters[i, : 2 + i % 8].tobytes() for i in range(len(letters))]
    rows = bytearray()
    for drawn in (np.minimum(generator.zipf(1.2, (PHRASES, 8)), len(vocabulary)) - 1).tolist():
        rows += b" ".join(vocabulary[i] for i in drawn)[: PHRASE - 1].ljust(PHRASE)
    return np.frombuffer(bytes(rows), np.uint8).reshape(PHRASES, PHRASE)


def make_text(lengths: NDArray[np.int64], *, script: Script = "latin", seed: int = 1, copies: bool = True) -> TextBatch:
    """Documents of `lengths` phrases each; with `copies` those at 4 and 9 modulo 10 take the length before them."""
    lengths = lengths.copy()
    later = np.arange(4, len(lengths), 5) if copies else np.zeros(0, np.int64)
    lengths[later] = lengths[later - 1]
    offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
    drawn = _draw(int(offset[-1]), seed)
    for remainder, changed in ((4, 1), (9, 0)):
        rows = np.arange(remainder, len(lengths), 10) if copies else later
        kept = np.maximum(lengths[rows] - changed, 0)
        first = np.cumsum(kept) - kept
        place = np.repeat(offset[rows] - first, kept) + np.arange(int(kept.sum()))
        drawn[place] = drawn[place - np.repeat(lengths[rows], kept)]
    table = phrases(script)
    values = np.empty((len(drawn), PHRASE), np.uint8)

    def copy(start: int) -> None:
        stop = min(start + BLOCK, len(drawn))
        np.take(table, drawn[start:stop], axis=0, out=values[start:stop], mode="clip")

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(copy, range(0, len(drawn), BLOCK)))
    return TextBatch(values.reshape(-1), offset * PHRASE)


def even(megabytes: float, phrases_each: int, **options: object) -> TextBatch:
    """Documents of one length."""
    count = max(int(megabytes * 1e6 / (phrases_each * PHRASE)), 10)
    return make_text(np.full(count, phrases_each, np.int64), **options)  # type: ignore[arg-type]


def log_normal(megabytes: float, median: int = 50, sigma: float = 1.2, seed: int = 1, **options: object) -> TextBatch:
    """Lengths as crawled pages have them: a few far longer than most."""
    mean = median * float(np.exp(sigma * sigma / 2))
    count = max(int(megabytes * 1e6 / (mean * PHRASE)), 10)
    drawn = np.random.default_rng(seed).lognormal(np.log(median), sigma, count)
    return make_text(np.maximum(drawn, 1).astype(np.int64), seed=seed, **options)  # type: ignore[arg-type]


def uniform(megabytes: float, longest: int = 200, seed: int = 1, **options: object) -> TextBatch:
    """Lengths from nothing to `longest` phrases, each as likely."""
    count = max(int(megabytes * 1e6 / (longest / 2 * PHRASE)), 10)
    lengths = np.random.default_rng(seed).integers(0, longest + 1, count)
    return make_text(lengths, seed=seed, **options)  # type: ignore[arg-type]


def as_arrow(batch: TextBatch) -> object:
    """The same memory as a pyarrow LargeStringArray."""
    import pyarrow as pa

    return pa.LargeStringArray.from_buffers(len(batch), pa.py_buffer(batch.offset), pa.py_buffer(batch.values))


def write_parquet(batch: TextBatch, folder: Path, files: int) -> list[Path]:
    """Files of one column, text, in row groups of about 16 MB, without a dictionary, compressed by Snappy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    column = as_arrow(batch)
    group = max(int(16e6 / max(len(batch.values) / len(batch), 1)), 1)
    edges = np.linspace(0, len(batch), files + 1).astype(int)

    def write(at: int) -> Path:
        path = folder / f"part-{at:03}.parquet"
        rows = column.slice(edges[at], edges[at + 1] - edges[at])  # type: ignore[attr-defined]
        pq.write_table(pa.table({"text": rows}), path, row_group_size=group, use_dictionary=False)
        return path

    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(write, range(files)))


def cut(batch: TextBatch, size: int) -> Iterator[TextBatch]:
    """Views of about `size` bytes."""
    total = int(batch.offset[-1])
    edges = np.searchsorted(batch.offset, np.arange(0, total, size))
    edges = np.unique(np.append(edges, len(batch)))
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield batch.slice(start, stop)


def _draw(count: int, seed: int) -> NDArray[np.uint16]:
    """Phrase numbers. u^4 has the distribution function of Zipf's law with exponent 3/4."""
    drawn = np.empty(count, np.uint16)

    def fill(start: int) -> None:
        stop = min(start + BLOCK, count)
        u = np.random.default_rng([seed, start // BLOCK]).random(stop - start, np.float32)
        u *= u
        u *= u
        u *= np.float32(PHRASES)
        drawn[start:stop] = np.minimum(u, np.float32(PHRASES - 1))

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, range(0, count, BLOCK)))
    return drawn
