"""Three corpora of equal length: pages of one template with own content, near-copies of one page, unrelated pages.

Words are drawn by frequency from a real corpus, so their lengths are real while no two pages share a shingle by chance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora.parquet import write_texts

DOCUMENTS = 200_000
WORDS = 400
# 296 common shingles and 100 own ones in each of two pages: Jaccard 296 / 496, about 0.6.
OWN_WORDS = 96
CHANGED_WORDS = 2
_BATCH = 1_000


class Words:
    """Draws words as often as the texts hold them."""

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        counted = Counter(w for text in texts[:5_000] for w in re.findall(r"\w+", text.lower()))
        # The commonest words would make shared shingles of unrelated pages; they go.
        words = counted.most_common()[200:]
        self.words: NDArray[np.object_] = np.array([w for w, _ in words], object)
        weight = np.array([c for _, c in words], float)
        self.weight = np.cumsum(weight / weight.sum())
        self.draw = np.random.default_rng(seed)

    def take(self, rows: int, count: int) -> NDArray[np.object_]:
        at = np.searchsorted(self.weight, self.draw.random((rows, count)))
        return self.words[np.minimum(at, len(self.words) - 1)]


def template_pages(texts: Sequence[str], documents: int) -> Iterator[str]:
    words = Words(texts, 1)
    common = words.take(1, WORDS - OWN_WORDS)[0].tolist()
    head, tail = " ".join(common[: len(common) // 2]), " ".join(common[len(common) // 2 :])
    for low in range(0, documents, _BATCH):
        for own in words.take(min(_BATCH, documents - low), OWN_WORDS).tolist():
            yield f"{head} {' '.join(own)} {tail}"


def near_copies(texts: Sequence[str], documents: int) -> Iterator[str]:
    words = Words(texts, 2)
    page = words.take(1, WORDS)[0].tolist()
    for low in range(0, documents, _BATCH):
        rows = min(_BATCH, documents - low)
        places = words.draw.integers(WORDS, size=(rows, CHANGED_WORDS)).tolist()
        for at, new in zip(places, words.take(rows, CHANGED_WORDS).tolist(), strict=True):
            copy = list(page)
            for place, word in zip(at, new, strict=True):
                copy[place] = word
            yield " ".join(copy)


def unrelated(texts: Sequence[str], documents: int) -> Iterator[str]:
    words = Words(texts, 3)
    for low in range(0, documents, _BATCH):
        for own in words.take(min(_BATCH, documents - low), WORDS).tolist():
            yield " ".join(own)


KINDS = {"template": template_pages, "copies": near_copies, "unrelated": unrelated}


def make(path: Path, kind: str, texts: Sequence[str], documents: int = DOCUMENTS) -> Path:
    return write_texts(path, KINDS[kind](texts, documents))
