"""The tables that stages hand on: what is read is what was written, and other content is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

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


@pytest.mark.parametrize("places", [np.int32, np.int64])
def test_what_is_read_is_what_was_written(places: type, tmp_path: Path) -> None:
    written = tables.Members(np.arange(5), np.arange(5, dtype=places), np.array([1, 0, 0, 1, 1], bool))
    (name,) = tables.MEMBERS.write(tmp_path, "connect", written)
    assert name == "connect-members.arrow"
    read = tables.MEMBERS.read(tmp_path, "connect")
    assert read.document.tolist() == [0, 1, 2, 3, 4] and read.group.dtype == places
    assert [read.meets[start:].tolist() for start in (0, 3)] == [[True, False, False, True, True], [True, True]]
    ids = tables.ids_table(3)
    (name,) = ids.write(tmp_path, 7, tables.Ids(np.arange(2), pa.array(["a", None])))
    assert name == "collect-000007-ids3.arrow" and ids.read(tmp_path, 7).id.to_pylist() == ["a", None]
