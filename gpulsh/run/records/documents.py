"""What the partitions know of documents: written by whoever reads them, looked up by position."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.decide.relation import Relation
from gpulsh.io.files.file_texts import Partition, PartitionFacts
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.policy import Policy
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.numbers import tampered
from gpulsh.run.records.rejections import PassedOver
from gpulsh.run.records.tables import ORDER, SET_SIZES, SIZES, SIZES_AND_ORDER, OrderedSizes, Row, Sizes, Table


def write_facts(place: Workplace, partition: Partition, facts: PartitionFacts, rejected: PassedOver) -> Made:
    """SIZES, ORDER and what is rejected of a partition that was read."""

    def where(row: int) -> str:
        file, number = facts.place(partition, row)
        return f"{place.job.files[file].name}: row {number}"

    sizes = np.concatenate([np.empty(0, np.int64), *facts.sizes])
    order = place.job.policy.order(facts, place.job.files, where)
    if order is None:
        made = SIZES.write(place.folder, partition.number, Sizes(sizes))
    else:
        made = SIZES_AND_ORDER.write(place.folder, partition.number, OrderedSizes(sizes, *order))
    bad = rejected.finish()
    return Made(
        {**made, **bad},
        {
            "documents": len(sizes),
            "nulls": facts.nulls,
            "not_utf8": facts.stray.rows,
            "stray_bytes": facts.stray.bytes,
            "rows": {str(number): rows for number, rows in facts.rows.items()},
            "rejected": bool(bad),
        },
    )


def sizes_of(positions: Numbers, folder: Path, layout: Layout) -> Numbers:
    """int64 [m]: bytes of text of the documents at ascending `positions`."""
    (found,) = _looked_up(SIZES, positions, folder, layout)
    if (found < 0).any():
        raise tampered(folder, "sizes below 0")
    return found


def set_sizes_of(positions: Numbers, folder: Path, layout: Layout) -> Numbers:
    """int64 [m]: how many fingerprints each of the documents at ascending `positions` has."""
    (found,) = _looked_up(SET_SIZES, positions, folder, layout)
    return found


def sizes_in(partition: int, rows: slice, folder: Path) -> int:
    """Bytes of text of some rows of a partition, in all."""
    return int(SIZES.read(folder, partition).size[rows].sum())


def ranks_of(positions: Numbers, by_position: bool, folder: Path, layout: Layout) -> Numbers:
    """int64 [m]: the place of each of ascending `positions` in the decision order of them all."""
    if by_position:  # protected documents come first by that, too
        return np.arange(len(positions))
    return _looked_up(ORDER, positions, folder, layout).rank(positions < layout.protected)


def relation_of(positions: Numbers, policy: Policy, layout: Layout) -> Relation:
    """Which of ascending `positions` may be dropped for which, by their places."""
    source = layout.source_of(positions) if policy.by_source() else None
    return Relation(source, int(np.searchsorted(positions, layout.protected)), policy.across)


def _looked_up(table: Table[Row], positions: Numbers, folder: Path, layout: Layout) -> Row:
    found = table.empty(len(positions))
    for number, part in layout.by_partition(positions):
        start, stop = layout.partitions[number : number + 2].tolist()
        for column, known in zip(found, table.read(folder, number), strict=True):
            if len(known) != stop - start:
                raise tampered(folder, f"{len(known)} documents of the {stop - start} of partition {number}")
            column[part] = known[positions[part] - start]
    return found
