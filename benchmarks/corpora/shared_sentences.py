"""Pages of 45 of the same 60 sentences, in their order: nearly all pairs meet, and hardly any reaches 0.8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.corpora.parquet import write_texts
from benchmarks.corpora.templates import Words

SENTENCES, CHOSEN = 60, 45
SHORTEST, LONGEST = 20, 40  # words


def pages(texts: Sequence[str], documents: int) -> Iterator[str]:
    words = Words(texts, 4)
    lengths = words.draw.integers(SHORTEST, LONGEST + 1, SENTENCES)
    sentences = [" ".join(words.take(1, int(length))[0].tolist()).capitalize() + "." for length in lengths]
    for _ in range(documents):
        chosen = np.sort(words.draw.permutation(SENTENCES)[:CHOSEN])
        yield " ".join(sentences[sentence] for sentence in chosen)


def make(path: Path, texts: Sequence[str], documents: int) -> Path:
    return write_texts(path, pages(texts, documents))
