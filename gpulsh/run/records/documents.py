"""What the partitions know of documents, looked up by position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.decide.relation import Relation
from gpulsh.run.job.job import step_file, step_of
from gpulsh.run.job.order import Order
from gpulsh.run.job.placed import Placed
from gpulsh.run.job.policy import Policy
from gpulsh.run.records.numbers import tampered
from gpulsh.store.columns import MappedColumns


def sizes_of(positions: Numbers, folder: Path, placed: Placed) -> Numbers:
    """int64 [m]: bytes of text of the documents at ascending `positions`."""
    found = _looked_up("size", positions, np.int64, folder, placed)
    if (found < 0).any():
        raise tampered(folder, "sizes below 0")
    return found


def sizes_in(partition: int, rows: slice, folder: Path) -> int:
    """Bytes of text of some rows of a partition, in all."""
    return int(MappedColumns(step_file(folder, step_of("sign", partition), "documents")).column("size")[rows].sum())


def ranks_of(positions: Numbers, by_position: bool, folder: Path, placed: Placed) -> Numbers:
    """int64 [m]: the place of each of ascending `positions` in the decision order of them all."""
    if by_position:  # protected documents come first by that, too
        return np.arange(len(positions))
    order = Order(*(_looked_up(name, positions, np.uint64, folder, placed) for name in Order._fields))
    return order.rank(positions < placed.protected)


def relation_of(positions: Numbers, policy: Policy, placed: Placed) -> Relation:
    """Which of ascending `positions` may be dropped for which, by their places."""
    source = placed.source_of(positions) if policy.by_source() else None
    return Relation(source, int(np.searchsorted(positions, placed.protected)), policy.across)


def _looked_up(name: str, positions: Numbers, dtype: type, folder: Path, placed: Placed) -> NDArray[Any]:
    found: NDArray[Any] = np.empty(len(positions), dtype)
    for number, part in placed.by_partition(positions):
        columns = MappedColumns(step_file(folder, step_of("sign", number), "documents"))
        start, stop = placed.partitions[number : number + 2].tolist()
        if len(known := columns.column(name)) != stop - start:
            raise tampered(folder, f"{len(known)} documents of the {stop - start} of partition {number}")
        found[part] = known[positions[part] - start]
    return found
