"""Texts to fingerprints: `gpulsh.shingle`, and `gpulsh.weigh` with weights.

`Documents` reads texts for every call that takes them: it checks them, opens them, and gives batch after batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import Literal, get_args

import numpy as np

from gpulsh.arrays import Fingerprints, TextBatch, WeightedFingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_choice, known_keywords
from gpulsh.io.memory.texts import MemoryTexts, open_texts
from gpulsh.io.rows import TextSource, normalized
from gpulsh.params import Folding, Shingling, text_reading
from gpulsh.ragged import concat_rows, sorted_distinct

Weights = Literal["count", "idf"]

BATCH_BYTES = 32 << 20  # of text in memory


@dataclass(frozen=True, kw_only=True)
class TextReading:
    """The way to read texts as tokens, and the backend that does."""

    ops: Backend
    shingling: Shingling
    folding: Folding
    of_bytes: bool = False  # whether tokens are bytes: of passages alone


@dataclass(frozen=True, kw_only=True)
class Documents(TextReading):
    """Documents in memory, and how they are read."""

    source: MemoryTexts

    @classmethod
    def open(
        cls,
        texts: object,
        shingling: Shingling | str | None,
        folding: Folding | None,
        backend: BackendName,
        threads: int | None,
    ) -> Documents:
        """Open the texts that a user gives, or raise an error that names the fault."""
        shingling, folding = text_reading(shingling, folding)
        ops = select_backend(backend, threads=threads)
        return cls(source=open_texts(texts, ops), shingling=shingling, folding=folding, ops=ops)

    def batches(self) -> Iterator[TextBatch]:
        """All documents, normalized, in batches."""
        return normalized_batches(self.source, self.folding, BATCH_BYTES)

    def fingerprints(self) -> Iterator[Fingerprints]:
        """The fingerprints of each batch, in text order; one batch of no rows where there is no document."""
        if not len(self.source):
            yield self.ops.shingle(TextBatch(np.empty(0, np.uint8), np.zeros(1, np.int64)), self.shingling)
        for batch in self.batches():
            yield self.ops.shingle(batch, self.shingling)


def normalized_batches(source: TextSource, folding: Folding, max_bytes: int) -> Iterator[TextBatch]:
    """Documents in batches, normalized where `folding` says so."""
    for batch in source.batches(max_bytes):
        ready = normalized(batch, folding.form)
        del batch
        yield ready
        del ready  # before the next one is read


@known_keywords
def shingle(
    texts: object,
    *,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Fingerprints:
    """The 64-bit fingerprints of every document's shingles, in text order, repeats kept.

    `texts` is any kind that `deduplicate` takes. Returns Fingerprints: `values` uint64 [nnz], `offset` int64 [n + 1],
    on the backend's device; a null document and a document without a token have an empty row. They are public hashes,
    scheme 1, the same everywhere. An author can make texts collide in them, so they propose pairs and prove nothing;
    `deduplicate` compares fingerprints under a secret.

    Raises InputTypeError if a row is not a text, and BackendError if CUDA is requested and does not work.
    Source: shingling, Broder 1997, *On the resemblance and containment of documents*; the hash is defined in
    `gpulsh.backends.protocol`.

    >>> fingerprints = shingle(["one two three four five six", "six"], backend="cpu")
    >>> fingerprints.offset
    array([0, 2, 3])
    """
    return concat_rows(list(Documents.open(texts, shingling, folding, backend, threads).fingerprints()))


@known_keywords
def weigh(
    texts: object,
    weights: Weights = "count",
    *,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> WeightedFingerprints:
    """The distinct fingerprints of every document's shingles, ascending, each with a weight.

    `texts` is any kind that `deduplicate` takes. "count" weighs a shingle by its occurrences in the document. "idf"
    multiplies these by ln((n + 1) / df), where df of all n documents, including null and empty ones, have the shingle.
    That is tf-idf (Salton, Buckley 1988) with one more document, so a shingle of all documents has a weight. `SimHash`
    uses the same names, with another base and rounding of the logarithm. Returns WeightedFingerprints: `values` uint64
    [nnz], `weight` float64 [nnz], `offset` int64 [n + 1], on the backend's device; a null document has an empty row.

    Raises InputTypeError if a row is not a text, and BackendError if CUDA is requested and does not work.

    >>> rows = weigh(["to be or not to be"], shingling=Shingling(size=1), backend="cpu")
    >>> sorted(rows.weight.tolist())
    [1.0, 1.0, 2.0, 2.0]
    """
    check_choice("weights", weights, get_args(Weights))
    documents = Documents.open(texts, shingling, folding, backend, threads)
    ops = documents.ops
    parts = [ops.occurrences(rows) for rows in documents.fingerprints()]
    with ops.use_device():
        rows = concat_rows([Fingerprints(part.values, part.offset) for part in parts])
        counted = WeightedFingerprints(rows.values, np.concatenate([part.weight for part in parts]), rows.offset)
        return counted if weights == "count" else _weigh_by_rarity(counted, ops)


def _weigh_by_rarity(rows: WeightedFingerprints, ops: Backend) -> WeightedFingerprints:
    count, ordered = len(rows), np.sort(rows.values)
    frequency = np.searchsorted(ordered, rows.values, side="right") - np.searchsorted(ordered, rows.values, side="left")
    rarity = np.zeros(count + 1)  # by frequency, from the host's logarithm on every backend
    for found in sorted_distinct(ops.asnumpy(frequency)).tolist():
        rarity[found] = log((count + 1) / found)
    return WeightedFingerprints(rows.values, rows.weight * ops.asarray(rarity)[frequency], rows.offset)
