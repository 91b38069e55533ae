"""`gpulsh.shingle`: the fingerprints of documents' shingles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.io.memory.texts import open_texts
from gpulsh.io.normalize import normalized
from gpulsh.io.source import TextSource
from gpulsh.params import Folding, Shingling, text_reading
from gpulsh.ragged import SomeRows

BATCH_BYTES = 32 << 20


def shingle(
    texts: object,
    *,
    shingling: Shingling | None = None,
    folding: Folding | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Fingerprints:
    """The 64-bit fingerprints of every document's shingles, in text order, repeats kept.

    `texts` is any kind that `deduplicate` takes. Returns Fingerprints: `values` uint64 [nnz], `offset` int64 [n + 1],
    on the backend's device; a null document and one without a token have an empty row. They are public hashes, scheme
    1, which reproduce everywhere and which text can be made to collide in: they propose, and prove nothing against
    whoever wrote the text. `deduplicate` compares fingerprints under a secret.

    Raises InputTypeError where a row is no text, BackendError where CUDA was asked for and does not work.
    Source: shingling, Broder 1997, *On the resemblance and containment of documents*; the hash is defined in
    `gpulsh.backends.protocol`.

    >>> fingerprints = shingle(["one two three four five six", "six"], backend="cpu")
    >>> fingerprints.offset
    array([0, 2, 3])
    """
    shingling, folding = text_reading(shingling, folding)
    ops = select_backend(backend, threads=threads)
    batches = folded_batches(open_texts(texts, ops), folding, BATCH_BYTES)
    parts = [ops.shingle(batch, shingling) for batch in batches]
    return concatenated(parts) if parts else ops.shingle(_no_text(), shingling)


def folded_batches(source: TextSource, folding: Folding, max_bytes: int) -> Iterator[TextBatch]:
    """Documents as batches, normalized where `folding` says so."""
    for batch in source.batches(max_bytes):
        ready = normalized(batch, folding.form)
        del batch
        yield ready
        del ready  # before the next one is read


def concatenated(parts: list[SomeRows]) -> SomeRows:
    """Batches of rows as one; NumPy hands CuPy arrays on to CuPy."""
    starts = np.cumsum([0, *(int(part.offset[-1]) for part in parts)])
    offsets = [part.offset[1:] + int(start) for part, start in zip(parts, starts, strict=False)]
    return type(parts[0])(
        np.concatenate([part.values for part in parts]), np.concatenate([parts[0].offset[:1], *offsets])
    )


def _no_text() -> TextBatch:
    return TextBatch(np.empty(0, np.uint8), np.zeros(1, np.int64))
