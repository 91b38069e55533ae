"""The corpus of the end-to-end measurements, made once a run: in memory, and as Parquet files on the local disk."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from benchmarks.gpu import corpora
from benchmarks.gpu.bench import Bench
from gpulsh.arrays import TextBatch

MEGABYTES = 2000.0
TWEET_MEGABYTES = 500.0
FILES = 32


def corpus(bench: Bench) -> TextBatch:
    """Pages of log-normal length, in host memory."""
    return _corpus(bench.scale)


def tweets(bench: Bench) -> TextBatch:
    """Short documents of one length, in host memory."""
    return _tweets(bench.scale)


def parquet_files(bench: Bench) -> list[Path]:
    """The same documents in 32 files; just written, so in the page cache."""
    return _files(bench.scale, bench.work / "parquet")


def small(bench: Bench, megabytes: float) -> TextBatch:
    """Another corpus of the same form."""
    return corpora.log_normal(megabytes * bench.scale, seed=2)


@lru_cache(maxsize=1)
def _corpus(scale: float) -> TextBatch:
    return corpora.log_normal(MEGABYTES * scale)


@lru_cache(maxsize=1)
def _tweets(scale: float) -> TextBatch:
    return corpora.even(TWEET_MEGABYTES * scale, corpora.TWEET)


@lru_cache(maxsize=1)
def _files(scale: float, folder: Path) -> list[Path]:
    return corpora.write_parquet(_corpus(scale), folder, FILES if scale >= 0.1 else 2)
