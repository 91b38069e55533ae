"""Draws documents from a corpus in one pass and in the memory of twice the sample: each as likely as any other, and
each by itself, or similar ones together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, TextBatch
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import InputError
from gpulsh.io.columns import Columns, text_named
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.form import Form
from gpulsh.io.memory.texts import open_texts
from gpulsh.io.rows import concatenated, gathered
from gpulsh.io.source import TextSource
from gpulsh.params import MAX_SEED, check_integer
from gpulsh.permutations import words_at
from gpulsh.run.indexing import open_inputs
from gpulsh.text.documents import BATCH_BYTES

LARGEST = 1 << 16  # documents, all pairs of which are counted
DEFAULT = 10_000
NEVER = np.uint64(2**64 - 1)  # the random number of what is not drawn

_Lots = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Documents of a corpus: `texts` [n], their `positions` int64 [n], ascending, among all `documents`."""

    texts: TextBatch
    positions: Numbers
    documents: int
    share: float  # how likely a document was to be drawn

    def places(self, pairs: Numbers) -> Numbers:
        """Of `pairs` [m, 2] of positions in the corpus those that lie in the sample, int64 [k, 2], as places in it."""
        place = np.full(self.documents, -1, np.int64)
        place[self.positions] = np.arange(len(self.positions))
        found = place[pairs]
        return found[(found >= 0).all(axis=1)]


def open_corpus(
    inputs: Sequence[str],
    *,
    text_column: str | Sequence[str] = "text",
    backend: BackendName = "auto",
    threads: int | None = None,
    **form: Any,
) -> FileTexts:
    """The documents of files, folders, globs and URLs, of which nothing is read yet; `form` is that of the files."""
    ops = select_backend(backend, threads=threads)
    return open_inputs(inputs, Columns(text=text_named(text_column)), Form(**form), ops)


def draw_sample(texts: object, size: int, seed: int) -> Sample:
    """`size` of the documents of any kind that `deduplicate` takes, or of `open_corpus`; all where there are fewer.

    The same documents at the same positions give the same sample.
    """
    size = check_integer("sample", size, 2, LARGEST)
    seed = check_integer("seed", seed, 0, MAX_SEED)

    def lots(batch: TextBatch, positions: Numbers) -> _Lots:
        return words_at("sample", seed, positions.astype(np.uint64))

    return _drawn(texts, size, lots)


def draw_similar(texts: object, size: int, seed: int, fingerprints: Callable[[TextBatch], Fingerprints]) -> Sample:
    """As `draw_sample`, without documents that have no shingle, and the more similar two are the likelier together.

    A document is drawn by the least of its fingerprints, on the host, in a random order, which two have in common with
    the probability of their Jaccard similarity s (`gpulsh.theory`). So of the pairs of that similarity the part drawn
    is `share` * (s + (1 - s) * `share`), where of documents drawn one by one it were `share` ** 2. A page of very many
    copies is drawn with all of them, and may then be all of the sample.
    """
    size = check_integer("sample", size, 2, LARGEST)
    seed = check_integer("seed", seed, 0, MAX_SEED)

    def lots(batch: TextBatch, positions: Numbers) -> _Lots:
        read = fingerprints(batch)
        found = np.full(len(read), NEVER)
        some = np.flatnonzero(read.lengths)
        least = np.minimum.reduceat(words_at("sample", seed, read.values), read.offset[some])
        found[some] = words_at("sample", seed, least)  # else the longest would come first
        return found

    return _drawn(texts, size, lots)


def read_pairs(path: str, threshold: float) -> Numbers:
    """The pairs `i`, `j` of a Parquet file, of positions in the corpus: those with `jaccard` of at least `threshold`.

    All, where it has no such column. InputError where it is no such file.
    """
    try:
        table = pq.read_table(Path(path))
        pairs = np.stack([table[name].to_numpy() for name in ("i", "j")], axis=1).astype(np.int64)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give Parquet with the columns i and j") from None
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as pairs: {error}; give Parquet with the columns i and j") from error
    if "jaccard" in table.column_names:
        pairs = pairs[table["jaccard"].to_numpy() >= threshold]
    return np.sort(pairs, axis=1)


def _drawn(texts: object, size: int, lots: Callable[[TextBatch, Numbers], _Lots]) -> Sample:
    """Every document has a random number; those with the least ones are the sample."""
    if not isinstance(texts, FileTexts):
        return _least(open_texts(texts), size, lots)
    texts.check()
    with texts.unchanged():
        return _least(texts, size, lots)


def _least(source: TextSource, size: int, lots_of: Callable[[TextBatch, Numbers], _Lots]) -> Sample:
    held = _Held([], np.empty(0, np.int64), np.empty(0, np.uint64), NEVER)
    documents = 0
    for batch in source.batches(BATCH_BYTES):
        positions = np.arange(documents, documents + len(batch))
        documents += len(batch)
        lots = lots_of(batch, positions)
        drawn = np.flatnonzero((lots <= held.bar) & (lots < NEVER))
        texts = [*held.texts, _rows(batch, drawn)]
        held = _Held(texts, np.append(held.positions, positions[drawn]), np.append(held.lots, lots[drawn]), held.bar)
        if len(held.lots) > 2 * size:
            held = held.least(size)
    held = held.least(size)
    return Sample(held.texts[0], held.positions, documents, (int(held.bar) + 1) / 2**64)


@dataclass(frozen=True, eq=False)
class _Held:
    """Documents that may be in the sample, and the random number above which no other will."""

    texts: list[TextBatch]
    positions: Numbers
    lots: _Lots
    bar: np.uint64

    def least(self, size: int) -> _Held:
        """Those of the `size` least random numbers, in input order, in one batch."""
        texts = concatenated(self.texts or [TextBatch(np.empty(0, np.uint8), np.zeros(1, np.int64))])
        if len(self.lots) <= size:
            return replace(self, texts=[texts])
        kept = np.sort(np.argpartition(self.lots, size - 1)[:size])
        return _Held([_rows(texts, kept)], self.positions[kept], self.lots[kept], self.lots[kept].max())


def _rows(batch: TextBatch, which: Numbers) -> TextBatch:
    return gathered(batch.values, batch.offset[which], batch.offset[which + 1])
