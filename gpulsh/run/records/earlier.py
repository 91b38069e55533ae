"""Documents of earlier runs that documents of this one are dropped for: they have a key, and no position.

In `decisions` their `duplicate_of` is below 0, the complement of their number. The stage that decides so writes EARLIER
(number, key) of each partition, ascending by number.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.arrays import Numbers
from gpulsh.io.arrow.ids import as_texts
from gpulsh.run.records.numbers import places_in
from gpulsh.run.records.tables import EARLIER

PLACE = r"(?s)^(?P<file>.*):(?P<row>[0-9]{1,18})$"


class EarlierKeys:
    """Where the earlier documents of all partitions stand, as their keys tell it."""

    def __init__(self, folder: Path, partitions: int, *, by_id: bool) -> None:
        self._files = [EARLIER.read(folder, partition) for partition in range(partitions)]
        self._folder, self._by_id = folder, by_id

    def kinds(self) -> list[pa.DataType]:
        """The pyarrow.DataType that an id must have room for: of integers, for strings are alike."""
        kinds = {file.key.type for file in self._files} if self._by_id else set()
        return [kind for kind in kinds if pa.types.is_integer(kind)]

    def where(self, partition: int, numbers: Numbers, ids: pa.DataType) -> list[pa.Array]:
        """file, row and id of documents [m] that a partition's are dropped for; `ids` is the type of ids.

        A key FILE:ROW is split at its last colon; one that is of another form stands whole for the file.
        """
        file = self._files[partition]
        rows = places_in(self._folder, "documents of the index", file.number, numbers)
        keys = file.key.take(pa.array(rows))
        if self._by_id:
            fits = pa.types.is_integer(ids) == pa.types.is_integer(keys.type)
            told = keys.cast(ids) if fits else as_texts(keys)
            return [pa.nulls(len(keys), pa.string()), pa.nulls(len(keys), pa.int64()), told]
        keys = keys.cast(pa.string())
        places = pc.extract_regex(keys, PLACE)
        split = places.is_valid()
        return [
            pc.if_else(split, pc.struct_field(places, "file"), keys),
            pc.if_else(split, pc.struct_field(places, "row"), None).cast(pa.int64()),
            pa.nulls(len(keys), ids),
        ]
