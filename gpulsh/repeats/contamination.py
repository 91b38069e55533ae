"""`gpulsh.contamination`: the items of a benchmark in texts in memory, and their places."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpulsh.arrays import Numbers, TextBatch, on_host
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.io.rows import normalized
from gpulsh.params import Folding, NormalForm, Shingling, Unit, known_keywords, normalizing
from gpulsh.ragged import chosen_rows
from gpulsh.repeats.benchmark import Covered, Found, Overlap, index_items
from gpulsh.repeats.places import byte_bounds_of
from gpulsh.secret import chosen_secret, evidence_keys
from gpulsh.text.documents import BATCH_BYTES, Documents, TextReading

if TYPE_CHECKING:
    import pyarrow as pa


@known_keywords
def contamination(
    texts: object,
    benchmark: object,
    *,
    tokens: int = 13,
    coverage: float = 0.8,
    ignore_common: int | None = None,
    unit: Unit = "word",
    symbols: bool = False,
    folding: Folding | None = None,
    normalize: NormalForm | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    secret: bytes | None = None,
) -> pa.Table:
    """Find the items of a benchmark that texts hold, exactly.

    A window is `tokens` consecutive tokens of an item; a shorter item is one window. A text covers the tokens of each
    window that it holds. It holds the item if it covers at least `coverage` of the tokens in windows that count.
    Punctuation, case and line ends do not matter: gpulsh compares words.

    texts          any kind that `deduplicate` takes
    benchmark      the items, also of any such kind; their windows stay in memory
    tokens         of a window, 1 to 64. An item of one word is in every text with that word
    coverage       above 0, at most 1
    ignore_common  ignore windows of more than this many items, such as instructions at the beginning of all questions.
                   None: ignore none
    unit           of tokens, "word" or "char"
    symbols        whether each symbol is a token
    folding        applied first; None: Folding(), which folds case
    normalize      "NFC" or "NFKC", short for folding=Folding(form=...)
    backend        "auto" (CUDA if it works, otherwise "cpu"), "cpu", "cuda" or "reference" (NumPy)
    threads        of the CPU backend; None: all processors
    secret         32 bytes that key the fingerprints, for tests; no result depends on them

    Returns a pyarrow.Table with a row for each item in a text, ordered by row, then item:

        row          int64: the text
        item         int64: the item's position in `benchmark`
        coverage     float64: the share of its tokens
        start, stop  int64: bytes of the text as UTF-8, from the first window of the item in it to the last, each at its
                     first occurrence

    Raises ParameterError, InputTypeError, or BackendError if CUDA was requested and does not work.
    Source: overlap of 13 words, Brown et al. 2020, *Language Models are Few-Shot Learners*, appendix C; the share of
    covered tokens, Touvron et al. 2023, *Llama 2*, appendix A.6.

    >>> question = "What is the largest city on the river that runs past the old mill?"
    >>> page = "A quiz\\nWhat is the largest city on the river\\nthat runs past the old mill\\nAnswers: page 9."
    >>> contamination(["Nothing of it.", page], [question], backend="cpu").to_pylist()
    [{'row': 1, 'item': 0, 'coverage': 1.0, 'start': 7, 'stop': 72}]
    """
    import pyarrow as pa

    overlap = Overlap.chosen("tokens", tokens, coverage, ignore_common)
    shingling, folding = Shingling(unit=unit, symbols=symbols), normalizing(folding, normalize)
    keys = evidence_keys(chosen_secret(secret))
    items = Documents.opened(benchmark, shingling, folding, backend, threads)
    documents = Documents.opened(texts, shingling, folding, backend, threads)
    ops, reading, form = documents.ops, documents.shingling, documents.folding.form
    index = index_items(ops, items.batches(), reading, keys, overlap)

    def held(ops: Backend, text: TextBatch) -> tuple[Found, Numbers, int]:
        found = index.find(ops, normalized(text, form), reading, keys)
        return found, byte_spans(replace(documents, ops=ops), text, found), len(text)

    parts, spans, first = [], [np.empty((0, 2), np.int64)], 0
    for found, span, count in ops.pipelined_map(documents.source.batches(BATCH_BYTES), held):
        parts.append(found._replace(row=found.row + first))
        spans.append(span)
        first += count
    whole, (start, stop) = Found.joined(parts), np.concatenate(spans).T
    columns = {"row": whole.row, "item": whole.item, "coverage": whole.coverage, "start": start, "stop": stop}
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def byte_spans(reading: TextReading, text: TextBatch, found: Found | Covered) -> Numbers:
    """int64 [m, 2]: the bytes of each span of tokens, in the original texts of a batch."""
    if not len(found.row):
        return np.empty((0, 2), np.int64)
    rows, row = np.unique(found.row, return_inverse=True)
    places, which = np.unique(
        np.stack([np.concatenate([row, row]), np.concatenate([found.first, found.stop - 1])], axis=1),
        axis=0,
        return_inverse=True,
    )
    begin, end = which.reshape(2, -1)
    bounds = byte_bounds_of(reading, chosen_rows(text.moved(on_host), rows), *np.ascontiguousarray(places.T))
    return np.stack([bounds[begin, 0], bounds[end, 1]], axis=1)
