"""Ids of documents by position, in the one type that the evidence shows them in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.io.arrow.buffers import chosen
from gpulsh.io.arrow.ids import as_texts, common_type, in_parquet, of_type, parquet_type, values_in_parquet
from gpulsh.io.arrow.rows import arrow_rows, is_text
from gpulsh.io.files.rejected import Rejected
from gpulsh.io.formats.endings import format_of
from gpulsh.run.job import FileJob, Layout
from gpulsh.run.records.tables import Ids, ids_table


def _declared_types(job: FileJob, layout: Layout, bad: Rejected) -> list[pa.DataType]:
    """The type of the id column in each file of this run that declares one."""
    if job.columns.id is None:
        return []
    known, new = np.diff(layout.files) > 0, range(job.earlier_files, len(job.files))
    with job.stamps.unchanged(new):
        files = [job.files[number] for number in new if known[number] or not bad.touches(number)]
        kinds = [format_of(file).kind(file, job.columns.id) for file in files]
    return [kind for kind in kinds if kind is not None]


@dataclass(frozen=True)
class IdKind:
    """The type common to all ids and to the files' schemas; if there is none, `in_json`, each value as JSON text.

    So the type does not depend on which rows are dropped, where every file has a schema and Parquet every value.
    """

    type: pa.DataType
    in_json: bool


MOST_OPEN = 4096  # files, each mapped


class IdColumn:
    """The ids that `collect` has brought together, by position; `files` are how many files each partition has.

    Files that were read `stay_open` for rows in small batches, whose witnesses are of any partition.
    """

    def __init__(
        self, folder: Path, layout: Layout, files: Sequence[int], kind: IdKind, *, stay_open: bool = False
    ) -> None:
        self._folder, self._layout, self._files = folder, layout, files
        self._none = not any(files)
        self._read = lru_cache(MOST_OPEN)(self._open) if stay_open else self._open
        self.kind = kind
        self.largest = 0  # bytes of an id, if they were all looked at

    @classmethod
    def of(
        cls,
        job: FileJob,
        folder: Path,
        layout: Layout,
        files: Sequence[int],
        bad: Rejected,
        more: Sequence[pa.DataType] = (),
    ) -> Self:
        """The ids of a run, of a type that has room for all of them and for `more` types."""
        found = cls(folder, layout, files, IdKind(pa.null(), False))
        kinds = [known.id.type for known in found._all()]
        kind = common_type([*_declared_types(job, layout, bad), *more, *kinds])
        in_json = kind is None or not in_parquet(kind) or not all(values_in_parquet(ids.id) for ids in found._all())
        found.kind = IdKind(pa.string() if in_json else parquet_type(kind), in_json)
        found.largest = max((int(_lengths(known.id).max(initial=0)) for known in found._all()), default=0)
        return found

    @property
    def type(self) -> pa.DataType:
        """The type of ids."""
        return self.kind.type

    def _all(self) -> Iterator[Ids]:
        return itertools.chain.from_iterable(map(self._of, range(len(self._files))))

    def _of(self, partition: int) -> Iterator[Ids]:
        return (self._read(partition, number) for number in range(self._files[partition]))

    def _open(self, partition: int, number: int) -> Ids:
        return ids_table(number).read(self._folder, partition)

    def sizes(self, positions: Numbers) -> Numbers:
        """int64 [m]: bytes of the ids at `positions`, 0 if they are not text."""
        ascending, places = np.unique(positions, return_inverse=True)
        found = np.zeros(len(ascending), np.int64)
        for partition, part in self._layout.by_partition(ascending) if self.largest else ():
            for known, ids in self._of(partition):
                lengths = _lengths(ids)
                at = np.searchsorted(known, ascending[part]).clip(max=max(len(known) - 1, 0))
                if len(known):
                    found[part] += np.where(known[at] == ascending[part], lengths[at], 0)
        return found[places]

    def at(self, positions: Numbers) -> pa.Array:
        """The ids at `positions` [m], as one pyarrow.Array."""
        if self._none or not len(positions):
            return pa.nulls(len(positions), self.type)
        ascending, places = np.unique(positions, return_inverse=True)
        found = []
        for partition, part in self._layout.by_partition(ascending):
            wanted = ascending[part]
            for known, ids in self._of(partition):
                first, last = (int(known[0]), int(known[-1])) if len(known) else (0, -1)
                here = wanted[slice(*np.searchsorted(wanted, [first, last + 1]))]
                values = chosen(ids, np.searchsorted(known, here))
                found.append(as_texts(values) if self.kind.in_json else of_type(values, self.type))
        return chosen(pa.concat_arrays(found), places)


def _lengths(ids: pa.Array) -> Numbers:
    """int64 [ids]: bytes of each, 0 if they are not text."""
    return arrow_rows(ids).lengths() if is_text(ids.type) else np.zeros(len(ids), np.int64)
