"""Groups of documents that are equally similar to each other and share nothing with other groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpora.parquet import write_texts

SHINGLE = 5
COMMON, OWN = 200, 100  # shingles: of two documents 200 of 400 are common
SIMILARITY = COMMON / (COMMON + 2 * OWN)


def groups(count: int, members: int) -> Iterator[str]:
    for group in range(count):
        common = [f"g{group}c{place}" for place in range(COMMON + SHINGLE - 1)]
        for member in range(members):
            yield " ".join([*common, *(f"g{group}m{member}w{place}" for place in range(OWN))])


def make(path: Path, count: int, members: int) -> Path:
    return write_texts(path, groups(count, members))
