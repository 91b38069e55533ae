"""Numbers in files: what is read is what was written, mapped, by ranges of hashes, or appended."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.errors import DamagedInputError
from gpulsh.store.columns import Column, MappedColumns, columns_file, range_order, range_rows, write_columns
from gpulsh.store.durable import fact_of


class Rows(NamedTuple):
    hashes: NDArray[np.uint64]
    place: NDArray[np.signedinteger]
    kept: NDArray[np.bool_]
    name: pa.Array


class Hashes(NamedTuple):
    hashes: NDArray[np.uint64]


SCHEMA = pa.schema([("hashes", pa.uint64()), ("place", pa.int32()), ("kept", pa.uint8()), ("name", pa.string())])


def test_runs_of_rows_are_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    runs = [(np.arange(n, dtype=np.uint64), np.arange(n, dtype=np.int32), np.arange(n) % 3 == 0) for n in (3, 0, 20)]
    with columns_file(path, SCHEMA) as file:
        for hashes, place, kept in runs:
            file.append([hashes, place, kept, pa.array(map(str, range(len(hashes))), pa.string())])
        fact = file.finish()
    assert fact_of(path) == fact and path.stat().st_mode & 0o777 == 0o600
    mapped = MappedColumns(path, Rows)
    for (hashes, place, kept), found in zip(runs, mapped.runs(), strict=True):
        assert found.hashes.tolist() == hashes.tolist() and found.hashes.dtype == np.uint64
        assert found.place.tolist() == place.tolist()
        assert found.kept.tolist() == kept.tolist()
        assert found.name.to_pylist() == [str(n) for n in range(len(hashes))]
    path.unlink()
    mapped.release()  # the pages are read again, though the name is gone
    assert [len(run.hashes) for run in mapped.beside(Hashes)] == [3, 0, 20]
    with pytest.raises(DamagedInputError, match="it holds 3 record batches, not one"):
        mapped.whole()


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"place": np.arange(3)}, "it lacks the column 'hashes'"),
        ({"hashes": np.arange(2.0)}, "column 'hashes' is double, not uint64"),
        ({"hashes": np.arange(3, dtype=np.uint32)}, "column 'hashes' is uint32, not uint64"),
        ({"hashes": np.arange(3)}, "column 'hashes' is int64, not uint64"),
        ({"hashes": pa.array(["a"])}, "column 'hashes' is string, not uint64"),
        ({"hashes": pa.array([True])}, "column 'hashes' is bool, not uint64"),
    ],
)
def test_other_content_is_damage(columns: dict[str, object], told: str, tmp_path: Path) -> None:
    write_columns(tmp_path / "a.arrow", columns)  # type: ignore[arg-type]
    with pytest.raises(DamagedInputError, match=told):
        MappedColumns(tmp_path / "a.arrow", Hashes).whole()


def test_no_rows_are_of_any_type(tmp_path: Path) -> None:
    """As where nothing was decided."""
    write_columns(tmp_path / "a.arrow", {"hashes": np.empty(0, np.int64)})
    assert MappedColumns(tmp_path / "a.arrow", Hashes).whole().hashes.dtype == np.uint64


def test_a_file_cut_short_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_columns(path, {"hashes": np.arange(100, dtype=np.uint64)})
    content = path.read_bytes()
    for length in range(1, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedInputError, match="is damaged"):
            MappedColumns(path, Hashes).whole()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.integers(1, 9))
def test_a_range_of_hashes_is_a_slice_that_holds_all_of_them(hashes: list[int], parts: int) -> None:
    given_hashes = np.array(hashes, np.uint64)
    order = range_order(given_hashes)
    assert sorted(order.tolist()) == list(range(len(hashes)))
    ordered = given_hashes[order]
    assert (np.diff((ordered >> np.uint64(48)).astype(np.int64)) >= 0).all()
    for part in range(parts):
        low, high = -(-(part << 64) // parts), -(-((part + 1) << 64) // parts)
        wanted = {value for value in hashes if low <= value < high}
        rows = range_rows(ordered, part, parts)
        assert wanted <= set(ordered[rows].tolist())
        outside = {value >> 48 for value in hashes} - {value >> 48 for value in ordered[rows].tolist()}
        assert not outside & {value >> 48 for value in wanted}


@pytest.mark.parametrize("in_file", [False, True])
def test_what_was_appended_is_one_array(in_file: bool, tmp_path: Path) -> None:
    empty = Column(np.int64, tmp_path if in_file else None).whole()
    assert empty.tolist() == [] and empty.dtype == np.int64
    column = Column(np.int64, tmp_path if in_file else None)
    column.append(np.arange(3))
    column.append(np.arange(10)[::-2])  # in any layout
    column.append(np.array([7], np.uint8))  # and type
    whole = column.whole()
    column.release()
    assert whole.tolist() == [0, 1, 2, 9, 7, 5, 3, 1, 7]
    assert not list(tmp_path.iterdir())  # it has no name
