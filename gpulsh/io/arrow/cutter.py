"""Record batches with texts cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpulsh.errors import InputError
from gpulsh.io.arrow.buffers import to_arrow
from gpulsh.io.arrow.identities import BYTES
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.cuts import Cuts
from gpulsh.io.file import File


class Cutter:
    """Cuts the texts of the kept rows of a file, which come batch after batch."""

    def __init__(self, file: File, keep: NDArray[np.bool_], cuts: Cuts) -> None:
        self._file, self._cuts, self._column = file, cuts, cuts.columns.whole
        self._rows, self._done = np.flatnonzero(keep), 0

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The next batch, with the texts cut and all other columns as they are."""
        rows = self._rows[self._done : self._done + len(batch)]
        self._done += len(batch)
        changed = self._cuts.changed(rows)
        if not changed.any():
            return batch
        place = batch.schema.get_field_index(self._column) if self._column else -1
        if place < 0:
            raise InputError(f"{self._file.name}: its text is no column of its own; cut it as JSON lines")
        texts = batch.column(place)
        at = np.flatnonzero(changed)
        pieces = arrow_rows(texts).pieces(at)
        found = [self._cuts.text(row, piece) for row, piece in zip(rows[at].tolist(), pieces, strict=True)]
        columns = list(batch.columns)
        columns[place] = _replaced(texts, changed, found)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _replaced(texts: pa.Array, changed: NDArray[np.bool_], found: list[bytes]) -> pa.Array:
    """Texts of any type that `is_text`, some of them replaced; in the same type."""
    kind, plain = texts.type, texts
    while isinstance(plain.type, pa.BaseExtensionType):
        plain = plain.storage
    storage = plain.type
    whole = plain.cast(BYTES)
    replaced = pc.replace_with_mask(whole, to_arrow(changed), pa.array(found, BYTES))
    if pa.types.is_dictionary(storage):
        replaced = replaced.cast(storage.value_type).dictionary_encode().cast(storage)
    else:
        replaced = replaced.cast(storage)
    return pa.ExtensionArray.from_storage(kind, replaced) if isinstance(kind, pa.BaseExtensionType) else replaced
