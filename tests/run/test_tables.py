"""The tables that stages hand on: what is read is what was written, and other content is refused."""

from __future__ import annotations

import numpy as np

from gpulsh.forecast import formula
from gpulsh.run.records import tables
from gpulsh.run.records.tables import Table
from gpulsh.store.columns import kinds_of


def width(table: Table[tuple[object, ...]]) -> int:
    """Bytes of a row as arrays hold it."""
    kinds = [kind for kind in kinds_of(table.row).values() if kind is not None]
    return sum(4 if kind is np.signedinteger else np.dtype(kind).itemsize for kind in kinds)


def test_the_planner_counts_the_bytes_of_the_tables() -> None:
    assert (width(tables.DIGESTS), width(tables.EXACT)) == (formula.DIGEST_BYTES, formula.HASH_BYTES)
    assert width(tables.SIZES) == formula.SIZE_BYTES
    assert (width(tables.PAIRS), width(tables.PAIRS) + width(tables.GROUPS)) == (
        formula.PAIR_BYTES,
        formula.ROUTED_PAIR_BYTES,
    )
    assert width(tables.FOREST) == formula.STAR_BYTES
    assert width(tables.MEMBERS) == formula.MEMBER_BYTES == formula.MEMBER_OF_MANY_BYTES - 4
    assert width(tables.DECISIONS) == width(tables.DECIDED) == formula.DECISION_BYTES
