"""Documents of the size of job advertisements, recombined from the sentences of a real corpus.

A document is a few sentences that its employer puts into every advertisement, and others of its own. About two hundred
advertisements share an employer: enough common text for millions of candidates at 42 bands of 3 rows, too little for
duplicates. One in ten is a planted near-duplicate: an earlier advertisement with some sentences changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.corpora.parquet import write_texts

DOCUMENTS = 400_000
MEAN_BYTES = 1_700
EMPLOYERS_EACH = 200
EMPLOYER_SENTENCES = 3
PLANTED = 0.1
_SENTENCE = re.compile(r"[^.!?\n]{40,240}[.!?]")


def _sentences(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(s.strip() for text in texts for s in _SENTENCE.findall(text)))


def job_ads(texts: Sequence[str], documents: int = DOCUMENTS, seed: int = 1) -> Iterator[str]:
    pool = _sentences(texts)
    draw = np.random.default_rng(seed)
    mean = float(np.mean([len(s.encode()) + 1 for s in pool[:100_000]]))
    own = max(3, round(MEAN_BYTES / mean) - EMPLOYER_SENTENCES)
    employers = draw.integers(len(pool), size=(max(1, documents // EMPLOYERS_EACH), EMPLOYER_SENTENCES))
    earlier: list[list[int]] = []
    for _ in range(documents):
        if earlier and draw.random() < PLANTED:
            chosen = list(earlier[int(draw.integers(len(earlier)))])
            for at in draw.choice(len(chosen), size=int(draw.integers(0, 4)), replace=False):
                chosen[at] = int(draw.integers(len(pool)))
        else:
            employer = employers[int(draw.integers(len(employers)))]
            count = max(3, int(draw.normal(own, own / 4)))
            chosen = [*employer.tolist(), *draw.integers(len(pool), size=count).tolist()]
            # Originals only, so that no chain of copies of copies grows; a tenth of them keeps the list small.
            if len(earlier) < documents // 10:
                earlier.append(chosen)
        yield " ".join([pool[s] for s in chosen])


def make(path: Path, texts: Sequence[str], documents: int = DOCUMENTS) -> Path:
    return write_texts(path, job_ads(texts, documents))
