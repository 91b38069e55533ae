"""Texts as every call that takes them reads them: checked, opened, batch after batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.io.memory.texts import MemoryTexts, open_texts
from gpulsh.io.normalize import normalized
from gpulsh.io.source import TextSource
from gpulsh.params import Folding, Shingling, text_reading

BATCH_BYTES = 32 << 20  # of text at once


@dataclass(frozen=True)
class Documents:
    """Documents in memory, how they are read, and the backend that reads them."""

    source: MemoryTexts
    shingling: Shingling
    folding: Folding
    ops: Backend

    @classmethod
    def opened(
        cls,
        texts: object,
        shingling: Shingling | str | None,
        folding: Folding | None,
        backend: BackendName,
        threads: int | None,
    ) -> Documents:
        """What a user gives, or the error that names what is wrong with it."""
        shingling, folding = text_reading(shingling, folding)
        ops = select_backend(backend, threads=threads)
        return cls(open_texts(texts, ops), shingling, folding, ops)

    def batches(self) -> Iterator[TextBatch]:
        """All documents, normalized; none where there is no document."""
        return folded_batches(self.source, self.folding, BATCH_BYTES)

    def fingerprints(self) -> Iterator[Fingerprints]:
        """Those of each batch, in text order; of no rows where there is no document."""
        if not len(self.source):
            yield self.ops.shingle(TextBatch(np.empty(0, np.uint8), np.zeros(1, np.int64)), self.shingling)
        for batch in self.batches():
            yield self.ops.shingle(batch, self.shingling)


def folded_batches(source: TextSource, folding: Folding, max_bytes: int) -> Iterator[TextBatch]:
    """Documents as batches, normalized where `folding` says so."""
    for batch in source.batches(max_bytes):
        ready = normalized(batch, folding.form)
        del batch
        yield ready
        del ready  # before the next one is read
