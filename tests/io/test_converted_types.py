"""Every Arrow type, with nulls, in structs and lists, comes out of each output format as it went in, or is refused."""

import datetime as dt
import decimal
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import InputError
from gpulsh.io.arrow.ids import in_parquet, one_type, parquet_type
from gpulsh.io.formats.json_text import json_values
from tests.support.files import read_rows, write_rows
from tests.support.runs import evidence, run

UNITS = ("s", "ms", "us", "ns")
NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool8(), pa.opaque(pa.int32(), "type", "vendor")),
]
DECIMALS = [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(20, 2), pa.decimal256(50, 2)]
PAIR = pa.list_(pa.float32(), 2)
TYPES: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [1, None, 0]) for kind in NUMBERS),
    *((kind, [decimal.Decimal("1.25"), None, decimal.Decimal("-2.50")]) for kind in DECIMALS),
    (pa.decimal128(5, -2), [decimal.Decimal("1E2"), None, decimal.Decimal("-2E2")]),
    *((kind, ["a", None, "c" * 30]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, [b"a", None, b"\xff" * 30]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    *((kind, [dt.date(2020, 1, 1), None, dt.date(1960, 1, 1)]) for kind in (pa.date32(), pa.date64())),
    *((kind, [dt.time(1, 2, 3), None, dt.time(4)]) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("ns"))),
    *((pa.timestamp(unit, "UTC"), [0, None, 1 << 30]) for unit in UNITS),
    *((pa.duration(unit), [dt.timedelta(seconds=3), None, dt.timedelta(0)]) for unit in UNITS),
    *((kind, [[1, None], None, []]) for kind in (pa.list_(pa.int32()), pa.large_list(pa.int32()))),
    *((kind, [[1, None], None, []]) for kind in (pa.list_view(pa.int32()), pa.large_list_view(pa.int32()))),
    (pa.null(), [None, None, None]),
    (pa.bool_(), [True, None, False]),
    (pa.binary(2), [b"ab", None, b"\xff\xfe"]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([0, 0, 1])]),
    (PAIR, [[1, 2], None, [3, None]]),
    (pa.list_(pa.int32(), 0), [[], None, []]),
    (pa.list_(PAIR, 1), [[[1, 2]], None, [None]]),
    (pa.struct([("x", pa.int32()), ("y", PAIR)]), [{"x": 1, "y": None}, None, {"x": None, "y": [1, 2]}]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], None, []]),
    (pa.map_(pa.string(), PAIR), [[("a", [1, 2]), ("b", None)], None, []]),
    *((pa.dictionary(pa.int8(), kind), ["a", None, "b"]) for kind in (pa.string(), pa.string_view())),
    (pa.uuid(), [uuid.UUID(int=5).bytes, None, uuid.UUID(int=7).bytes]),
    (pa.json_(), ['{"a": 1}', None, "[]"]),
    (pa.fixed_shape_tensor(pa.float32(), [2]), [[1, 2], None, [3, 4]]),
]
SPARSE = pa.array([0, 1, 0, 1, 0, 1], pa.int8())
WORDS = " ".join(f"w{number}" for number in range(30))
TEXTS = pa.array([WORDS, WORDS, "one two", "three four", "five six", f"{WORDS} more"])
STAY = [0, 2, 3, 4]


def array_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values * 2, kind.storage_type))
    if pa.types.is_dictionary(kind):
        codes = [None if value is None else "ab".index(value) for value in values * 2]
        return pa.DictionaryArray.from_arrays(pa.array(codes, kind.index_type), pa.array(["a", "b"], kind.value_type))
    return pa.array(values * 2, kind)


def columns() -> Iterator[tuple[str, pa.Array]]:
    """Each type, in a struct too, of which one is null, and in a list, of which one is null and one empty."""
    alone = [(str(kind), array_of(kind, values)) for kind, values in TYPES]
    children = [pa.array([1, 2, None] * 2), pa.array(["a", None, "c"] * 2)]
    alone.append(("union", pa.UnionArray.from_sparse(SPARSE, children)))
    ends = pa.array([2, 4, 6], pa.int32())
    alone.append(("run ends", pa.RunEndEncodedArray.from_arrays(ends, pa.array(["a", None, "b"]))))
    for name, values in alone:
        yield name, values
        yield f"struct of {name}", pa.StructArray.from_arrays([values], ["v"], mask=pa.array([False] * 5 + [True]))
        yield f"list of {name}", pa.ListArray.from_arrays(pa.array([0, 1, None, 3, 4, 6, 6], pa.int32()), values)


COLUMNS = dict(columns())
HELD = {name: values for name, values in COLUMNS.items() if in_parquet(values.type)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All columns in one file of Arrow, and those that Parquet has in one of their own."""
    folder = tmp_path_factory.mktemp("types")
    for name, some in (("every", COLUMNS), ("held", HELD)):
        write_rows(folder / f"{name}.arrow", pa.table({"text": TEXTS, **some}))
    return folder


@pytest.mark.parametrize(("name", "options"), [("every", {}), ("held", {"format": "parquet"})])
def test_kept_rows_are_read_again(name: str, options: dict[str, Any], corpus: Path, tmp_path: Path) -> None:
    run(corpus / f"{name}.arrow", tmp_path / "out", **options)
    if options:
        found = pq.read_table(tmp_path / "out/data/held.parquet")
        assert [str(kind) for kind in found.schema.types if "fixed_size_list" in str(kind).split(" ('")[0]] == []
    else:
        found = pa.ipc.open_file(str(tmp_path / "out/data/every.arrow")).read_all()
    assert found.num_rows == len(STAY)
    for column, values in (COLUMNS if name == "every" else HELD).items():
        rows = values.to_pylist()
        assert found[column].to_pylist() == [rows[row] for row in STAY], column


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.decimal128(5, -2), pa.decimal128(5, 7)])
def test_types_that_parquet_lacks_are_refused_before_the_work(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worked(*given: object) -> None:
        raise AssertionError("a partition was signed")

    monkeypatch.setattr("gpulsh.run.stages.sign.sign_batches", worked)
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4, 5, 6], pa.int32()), pa.nulls(6, kind))
    for values in (pa.nulls(6, kind), nested):
        write_rows(tmp_path / "a.arrow", pa.table({"text": TEXTS, "x": values}))
        with pytest.raises(InputError, match=r"column 'x' is .*, which Parquet cannot hold; leave format out"):
            run(tmp_path / "a.arrow", tmp_path / "out", format="parquet")


def test_kept_rows_as_json(corpus: Path, tmp_path: Path) -> None:
    run(corpus / "every.arrow", tmp_path / "out", format="jsonl")
    found = read_rows(tmp_path / "out/data/every.jsonl")
    for column, values in COLUMNS.items():
        rows = values.to_pylist()
        assert [row[column] is None for row in found] == [rows[row] is None for row in STAY], column


def test_ids_are_read_again(tmp_path: Path) -> None:
    for name, values in COLUMNS.items():
        ids = one_type([values], [values.type])
        pq.write_table(pa.table({"id": ids}), tmp_path / "ids.parquet")
        found = pq.read_table(tmp_path / "ids.parquet")["id"]
        rows = values.to_pylist()
        assert found.to_pylist() == ids.to_pylist() and found.null_count == rows.count(None), name


FIXED = [name for name in COLUMNS if "fixed_size_list" in name or "tensor" in name]
VIEWS = [name for name in COLUMNS if "_view" in name]
DICTIONARIES = [name for name in COLUMNS if "values=string," in name]


@pytest.mark.parametrize(
    "name", [*[name for name in FIXED if "of" not in name or "struct of" in name][::2], *VIEWS, *DICTIONARIES]
)
def test_evidence_by_ids_of_awkward_types(name: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "a.arrow", pa.table({"text": TEXTS, "id": COLUMNS[name]}), 2)
    run(tmp_path / "a.arrow", tmp_path / "out", id_column="id", write="marked")
    rows = COLUMNS[name].to_pylist()
    assert [row["id"] for row in evidence(tmp_path / "out")] == [rows[1], rows[5]]


def test_the_type_in_parquet_is_the_type_itself_unless_arrow_cannot_write_it() -> None:
    for name, values in HELD.items():
        if "fixed_s" not in name and "dictionary<values=string_view" not in name and "of dictionary" not in name:
            assert parquet_type(values.type) == values.type


def test_nested_dictionaries_are_read_from_several_row_groups(corpus: Path, tmp_path: Path) -> None:
    run(corpus / "held.arrow", tmp_path / "out", format="parquet")
    names = [name for name in HELD if "of dictionary" in name]
    table = pq.read_table(tmp_path / "out/data/held.parquet", columns=names)
    pq.write_table(table, tmp_path / "again.parquet", row_group_size=2)
    found = pq.ParquetFile(tmp_path / "again.parquet").read()
    assert len(names) == 4 and found.to_pylist() == table.to_pylist()


LISTS = [["q"], ["a", 'b"\\', "é\n"], None, [], ["x", None]]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, None, False]),
        pa.array([0, None, -(2**63), 2**63 - 1]),
        pa.array([1.0, None, 0.1, 1e300]),
        pa.array(["a", None, '"\\\0', "\u2028é"]),
        pa.array([None, None]),
        pa.array([None, None], pa.list_(pa.string())),
        pa.array([], pa.list_(pa.string())),
        pa.array(LISTS),
        pa.array(LISTS)[1:4],
        pa.array(LISTS)[2:3],
    ],
)
def test_json_texts(values: pa.Array) -> None:
    assert [json.loads(text) for text in json_values(values).to_pylist()] == values.to_pylist()
