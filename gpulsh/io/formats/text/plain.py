"""Plain text: a file is one document."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gpulsh.errors import InputError
from gpulsh.io.compression.packing import Packing
from gpulsh.io.format import (
    STRICT,
    Block,
    Columns,
    File,
    Limit,
    Mask,
    Rules,
    Seen,
    reading,
    too_large,
    unseen,
    wrong_length,
)
from gpulsh.io.rows import piece_rows

if TYPE_CHECKING:
    import pyarrow as pa


class PlainText:
    """A `gpulsh.io.format.Format` whose files have one row and no column but the text."""

    in_order = True
    natural_id: str | None = None

    def check(self, file: File, columns: Columns) -> int | None:
        """No other column can be asked of it."""
        for name in (columns.key, columns.id):
            if name is not None:
                raise InputError(f"{file.name}: is plain text and has no column {name!r}; give Parquet or JSON lines")
        with reading(file):
            return file.size()

    def read(self, file: File, columns: Columns, wanted: Mask | None = None, rules: Rules = STRICT) -> Iterator[Block]:
        """One block of one row."""
        limit = rules.limit
        with reading(file), file.open() as source:
            if limit is not None:
                size = file.size()
                size = _counted(source) if size is None else size
                if size > limit.document:
                    raise too_large(file, "", size, limit)
                source.seek(0)
            yield Block(0, piece_rows([source.read()]))

    def kind(self, file: File, column: str) -> pa.DataType:
        """None: it has no column."""
        return None

    def values(self, file: File, column: str, rows: NDArray[np.int64], limit: Limit | None = None) -> pa.Array:
        """Not to be had."""
        raise InputError(f"{file.name}: is plain text and has no column {column!r}")

    def takes(self, packing: Packing) -> bool:
        """Never."""
        return False

    def write_kept(
        self,
        file: File,
        keep: Mask,
        target: str,
        seen: Seen = unseen,
        limit: Limit | None = None,
        packing: Packing | None = None,
    ) -> None:
        """The file, byte for byte; none where the document is dropped, for an empty one would be another document."""
        if len(keep) != 1:
            raise wrong_length(file)
        if keep[0]:
            with reading(file):
                source = file.open()
            with source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)


def _counted(source: BinaryIO) -> int:
    """Bytes of a file whose size the store does not tell."""
    size = 0
    while step := source.read(1 << 20):
        size += len(step)
    return size
