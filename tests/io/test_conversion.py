"""Kept rows in another format than their file's: the rows and the names that each conversion gives."""

import datetime as dt
import decimal
import gzip
import json
import tracemalloc
import uuid
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import InputError, LargeDocumentError, OutputError, ParameterError
from gpulsh.io import conversion
from gpulsh.io.arrow.ids import cast_to, is_parquet_type, joined_ids, parquet_type
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.formats import json_text
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.json_types import MAX_FIELDS, NumberKind, Shape, record_batch
from gpulsh.io.limits import Limit
from tests.support.files import UNPACK, new_file, read_rows, read_table, record, write_rows
from tests.support.runs import evidence, interrupted, interrupting
from tests.support.runs import run as run_plain

COPY = "one two three four five six"
LINES = [
    b'{"text": "%s", "n": 1, "of": {"x": [1, 2]}, "mixed": 1}' % COPY.encode(),
    b'{"text": "%s"}' % COPY.encode(),
    b'{"text": "seven eight", "of": {"x": [], "y": "z"}, "mixed": "1", "big": 123456789012345678901}',
]
TYPED = pa.table(
    {
        "text": pa.array(["typed", None], pa.large_string()),
        "when": pa.array([1, None], pa.timestamp("ns", "UTC")),
        "raw": [b"\xff", None],
        "price": [Decimal("1.50"), None],
        "part": [float("nan"), None],
        "days": [[{"of": date(2020, 1, 2)}], None],
        "kind": pa.array(["a", None]).dictionary_encode(),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
    }
)
AS_JSON = {
    "text": "typed",
    "when": "1970-01-01 00:00:00.000000001Z",
    "raw": "/w==",
    "price": "1.50",
    "part": None,
    "days": [{"of": "2020-01-02"}],
    "kind": "a",
    "map": [["k", 1]],
}


CRAWLED = {"id": "<urn:1>", "url": "http://1", "date": "2024-01-01T00:00:00Z", "text": "crawled"}


def crawled(number: int, text: str) -> bytes:
    more = {"WARC_Target_URI": f"http://{number}", "WARC_Date": "2024-01-01T00:00:00Z"}
    return gzip.compress(record(number, text.encode(), **more), mtime=0)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A file of each kind of format; COPY comes first in a.jsonl and is dropped from the others."""
    folder = tmp_path / "in"
    write_rows(folder / "d.parquet", TYPED)
    write_rows(folder / "e.arrow", TYPED.slice(1))
    for name, content in {
        "a.jsonl": b"\n".join(LINES),
        "b.json": b'[{"text":\n "in an array"}, {"text": "%s"}]' % COPY.encode(),
        "c.csv.gz": gzip.compress(b'text,n\n"two\nlines",1\n\xff!,\n%s,2\n' % COPY.encode()),
        "f.txt": b"plain\n",
        "g.txt": COPY.encode(),
        "h.warc.gz": crawled(0, COPY) + crawled(1, "crawled"),
    }.items():
        (folder / name).write_bytes(content)
    return folder


def run(inputs: Any, out: Path, **options: Any) -> Path:
    gpulsh.deduplicate_files(inputs, out, backend="reference", shingling="word:1", **options)
    return out / "data"


def lines(path: Path) -> list[bytes]:
    return UNPACK[path.suffix[1:] if path.suffix in (".gz", ".zst") else ""](path.read_bytes()).splitlines()


def test_inputs_of_all_formats_become_parquet(inputs: Path, tmp_path: Path) -> None:
    with interrupting("gpulsh.run.file_run.write_report"):
        run(inputs, tmp_path / "out", format="parquet")
    with pytest.raises(OutputError, match="format was 'parquet' and is absent now"):
        run(inputs, tmp_path / "out", resume=True)
    data = run(inputs, tmp_path / "out", format="parquet", resume=True)
    names = sorted(path.name for path in data.iterdir())
    assert names == [f"{name}.parquet" for name in "abcdefh"]  # the dropped text has no row
    found = {name[0]: pq.read_table(data / name) for name in names}
    assert found["a"].to_pylist() == [
        {"text": COPY, "n": 1, "of": {"x": [1, 2], "y": None}, "mixed": "1", "big": None},
        {"text": "seven eight", "n": None, "of": {"x": [], "y": "z"}, "mixed": "1", "big": "123456789012345678901"},
    ]
    assert found["a"].schema.field("n").type == pa.int64()
    assert found["b"].to_pylist() == [{"text": "in an array"}]
    assert found["c"].to_pylist() == [{"text": "two\nlines", "n": "1"}, {"text": "\ufffd!", "n": None}]
    assert found["d"].schema == TYPED.schema and found["e"].slice(0, 1).to_pylist() == TYPED.slice(1).to_pylist()
    assert found["f"].to_pylist() == [{"text": "plain\n"}]
    assert found["h"].to_pylist() == [CRAWLED]


def test_inputs_of_all_formats_become_json_lines(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = run(inputs, tmp_path / "out", format="jsonl")
    names = ["a.jsonl", "b.jsonl", "c.jsonl.gz", "d.jsonl", "e.jsonl", "f.jsonl", "h.jsonl.gz"]
    assert sorted(path.name for path in data.iterdir()) == names
    assert lines(data / "a.jsonl") == [LINES[0], LINES[2]]
    assert lines(data / "b.jsonl") == [b'{"text":  "in an array"}']
    nulls = dict.fromkeys(AS_JSON)
    expected = [[{"text": "two\nlines", "n": "1"}, {"text": "\ufffd!", "n": None}], [AS_JSON, nulls], [nulls]]
    expected += [[{"text": "plain\n"}], [CRAWLED]]
    assert [list(map(json.loads, lines(data / name))) for name in names[2:]] == expected
    for module in (conversion, json_text):  # each row is a large one, whose text goes in pieces
        monkeypatch.setattr(module, "PART_BYTES", 1)
    again = run(inputs, tmp_path / "again", format="jsonl")
    assert all((again / name).read_bytes() == (data / name).read_bytes() for name in names)


def test_converted_files_take_the_chosen_codec(inputs: Path, tmp_path: Path) -> None:
    data = run(inputs, tmp_path / "lines", format="jsonl", compression="zstd:9")
    assert {path.suffixes[-2] + path.suffix for path in data.iterdir()} == {".jsonl.zst"}
    assert lines(data / "a.jsonl.zst") == [LINES[0], LINES[2]]
    data = run(inputs, tmp_path / "columns", format="parquet", compression="snappy")
    assert {pq.read_metadata(path).row_group(0).column(0).compression for path in data.iterdir()} == {"SNAPPY"}


def test_name_clashes_and_wrong_formats_are_refused(inputs: Path, tmp_path: Path) -> None:
    (inputs / "a.csv").write_text("text\none\n")
    with pytest.raises(InputError, match=r"a\.jsonl: would become data/a\.parquet in format 'parquet', as .*a\.csv"):
        run(inputs, tmp_path / "out", format="parquet")
    run(inputs / "a.jsonl", tmp_path / "own", format="parquet", protect=inputs / "a.csv")
    with pytest.raises(ParameterError, match=r"compression is 'snappy', and format 'jsonl'; give one of none, gzip, z"):
        run(inputs / "b.json", tmp_path / "out", format="jsonl", compression="snappy")
    with pytest.raises(ParameterError, match="format is 'csv'"):
        run(inputs, tmp_path / "out", format="csv")
    assert not (tmp_path / "out").exists()


def test_bad_records_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES[0] + b'\n{"text": 1}\n{"text": "x"\n' + LINES[2])
    (tmp_path / "b.csv").write_bytes(b"text,n\none,1\ntwo\nthree,3\n")
    data = run([tmp_path / "a.jsonl", tmp_path / "b.csv"], tmp_path / "out", format="parquet", on_error="skip")
    assert pq.read_table(data / "a.parquet").column("text").to_pylist() == [COPY, "seven eight"]
    assert pq.read_table(data / "b.parquet").column("n").to_pylist() == ["1", "3"]


def test_a_large_text_among_small_ones_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of 100 MB that was made at once, near the limit of memory, ended the process."""
    for module in (conversion, json_text):
        monkeypatch.setattr(module, "PART_BYTES", 1000)
    texts = ["a"] * 500 + ["b" * 50_000] + ["c"] * 500
    batch = pa.record_batch({"n": range(1001), "html": pa.array(texts, pa.string_view())})
    pieces = list(conversion.json_lines(File("a", "a", "a"), [batch], Columns("text"), Limit(1 << 20)))
    assert [json.loads(line)["html"] for line in b"".join(pieces).splitlines()] == texts
    assert max(map(len, pieces)) < 5000


def test_large_nested_and_binary_values_are_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """At `--memory 512MiB`, a list of 8 million numbers, or a text of 90 MB in an object, ended the process."""
    of = {"numbers": [*range(5000)], "texts": [None, "é" * 9999, "a"], "body": "b" * 9999, "none": [], "o": None}
    rows = [{"text": "a", "of": {**of, "texts": []}, "bytes": None}, {"text": "b", "of": of, "bytes": b"c" * 9999}]
    coded = pa.array(["d", None]).dictionary_encode("encode")
    batch = pa.RecordBatch.from_pylist(rows).append_column("coded", coded)
    file = File("a", "a", "a")
    whole = b"".join(conversion.json_lines(file, [batch], Columns("text"), None))
    for module in (conversion, json_text):
        monkeypatch.setattr(module, "PART_BYTES", 1000)
    pieces = list(conversion.json_lines(file, [batch], Columns("text"), Limit(1 << 10)))
    assert b"".join(pieces) == whole and max(map(len, pieces)) < 5000


def test_a_value_too_large_for_the_budget_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"text": ["a"], "map": pa.array([[("b" * 100, 1)] * 100], pa.map_(pa.string(), pa.int8()))})
    assert len(b"".join(conversion.json_lines(File("a", "a", "a"), [batch], Columns("text"), Limit(1 << 20)))) > 10_000
    monkeypatch.setattr(conversion, "PART_BYTES", 1)
    with pytest.raises(LargeDocumentError, match=r"a value of column 'map' as JSON: about .* bytes to read"):
        list(conversion.json_lines(File("a", "a", "a"), [batch], Columns("text"), Limit(1 << 12)))


@pytest.mark.parametrize("name", ["a.txt", "a.warc"])
def test_texts_are_freed_once_they_are_converted(name: str, tmp_path: Path) -> None:
    """pyarrow never frees what a memoryview shows, so memory grew with the file."""
    texts = [b"word " * 2000 + b"\n"] * 300
    content = texts if name == "a.txt" else [record(number, text) for number, text in enumerate(texts)]
    (tmp_path / name).write_bytes(b"".join(content))
    (file,) = find_files([str(tmp_path / name)], options=ReadOptions(lines=True))
    tracemalloc.start()
    try:
        rows = sum(len(batch) for batch in format_of(file).kept_batches(file, np.ones(300, bool)))
        assert rows == 300 and tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_row_groups_are_filled_with_whole_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "GROUP_ROWS", 5)
    batches: Iterator[pa.RecordBatch] = (pa.record_batch({"n": [place, place]}) for place in range(4))
    conversion.write_row_groups(File("a", "a", "a"), batches, new_file(tmp_path / "a"), None)
    found = pq.ParquetFile(tmp_path / "a").metadata
    assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == [6, 2]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([None, None], pa.large_string(), [None, None]),
        ([1, None, 2**60], pa.int64(), [1, None, 2**60]),
        ([1, 2.5, float("nan")], pa.float64(), [1.0, 2.5, None]),
        ([2**60, 2.5], pa.large_string(), [str(2**60), "2.5"]),
        ([True, 1], pa.large_string(), ["true", "1"]),
        (["a", float("nan"), "\ud800"], pa.large_string(), ["a", None, "\ufffd"]),
        ([1, "a", float("nan")], pa.large_string(), ["1", "a", None]),
        ([{}, {}], pa.large_string(), ["{}", "{}"]),
        ([[], [1], ["a"]], pa.list_(pa.large_string()), [[], ["1"], ["a"]]),
        ([{"a": 1}, {"a": [2]}], pa.struct([("a", pa.large_string())]), [{"a": "1"}, {"a": "[2]"}]),
        ([{str(n): n for n in range(MAX_FIELDS + 1)}, None], pa.large_string(), None),
    ],
)
def test_a_type_holds_all_values_of_a_field(values: list[Any], kind: pa.DataType, expected: list[Any] | None) -> None:
    shape = Shape()
    for some in (values[:1], values[1:]):
        shape.see([{"field": value} for value in some])
    found = record_batch(shape.schema(), [{"field": value} for value in values]).column(0)
    assert found.type == kind
    read = [None if isinstance(value, float) and value != value else value for value in found.to_pylist()]
    assert read == (expected or [json.dumps(values[0]), None])
    assert not shape.has(NumberKind.GREAT)


# --- every Arrow type comes out of each output format as it went in, or is refused ---


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
SIX_TEXTS = pa.array([WORDS, WORDS, "one two", "three four", "five six", f"{WORDS} more"])
STAY = [0, 2, 3, 4]


def array_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values * 2, kind.storage_type))
    if pa.types.is_dictionary(kind):
        codes = [None if value is None else "ab".index(value) for value in values * 2]
        return pa.DictionaryArray.from_arrays(pa.array(codes, kind.index_type), pa.array(["a", "b"], kind.value_type))
    return pa.array(values * 2, kind)


def every_column() -> Iterator[tuple[str, pa.Array]]:
    """Each type alone, in structs with a null one, and in lists with a null and an empty one."""
    alone = [(str(kind), array_of(kind, values)) for kind, values in TYPES]
    children = [pa.array([1, 2, None] * 2), pa.array(["a", None, "c"] * 2)]
    alone.append(("union", pa.UnionArray.from_sparse(SPARSE, children)))
    ends = pa.array([2, 4, 6], pa.int32())
    alone.append(("run ends", pa.RunEndEncodedArray.from_arrays(ends, pa.array(["a", None, "b"]))))
    for name, values in alone:
        yield name, values
        yield f"struct of {name}", pa.StructArray.from_arrays([values], ["v"], mask=pa.array([False] * 5 + [True]))
        yield f"list of {name}", pa.ListArray.from_arrays(pa.array([0, 1, None, 3, 4, 6, 6], pa.int32()), values)


COLUMNS = dict(every_column())
HELD = {name: values for name, values in COLUMNS.items() if is_parquet_type(values.type)}


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One Arrow file with all columns, and one with those that Parquet can hold."""
    folder = tmp_path_factory.mktemp("types")
    for name, some in (("every", COLUMNS), ("held", HELD)):
        write_rows(folder / f"{name}.arrow", pa.table({"text": SIX_TEXTS, **some}))
    return folder


@pytest.mark.parametrize(("name", "options"), [("every", {}), ("held", {"format": "parquet"})])
def test_kept_rows_of_every_type_read_back(name: str, options: dict[str, Any], types: Path, tmp_path: Path) -> None:
    run_plain(types / f"{name}.arrow", tmp_path / "out", **options)
    found = read_table(tmp_path / f"out/data/{name}.{options.get('format', 'arrow')}")
    assert not options or not any("fixed_size_list" in str(kind).split(" ('")[0] for kind in found.schema.types)
    assert found.num_rows == len(STAY)
    for column, values in (COLUMNS if name == "every" else HELD).items():
        rows = values.to_pylist()
        assert found[column].to_pylist() == [rows[row] for row in STAY], column


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.decimal128(5, -2), pa.decimal128(5, 7)])
def test_types_that_parquet_lacks_are_refused_before_the_work(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsh.run.stages.sign.sign_batches", interrupted)
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4, 5, 6], pa.int32()), pa.nulls(6, kind))
    for values in (pa.nulls(6, kind), nested):
        write_rows(tmp_path / "a.arrow", pa.table({"text": SIX_TEXTS, "x": values}))
        with pytest.raises(InputError, match=r"column 'x' is .*, which Parquet cannot hold; leave format out"):
            run_plain(tmp_path / "a.arrow", tmp_path / "out", format="parquet")


@pytest.mark.parametrize(
    ("kind", "value", "format", "message"),
    [
        (pa.timestamp("s"), 1 << 60, "parquet", "values beyond the range of Parquet, as"),
        (pa.timestamp("us", "UTC"), 1 << 60, "jsonl", "dates beyond the year 32765, as"),
        (pa.date32(), 1 << 24, "jsonl", "dates beyond the year 32765, as"),
    ],
)
def test_values_out_of_the_range_of_a_format_are_refused(
    kind: pa.DataType, value: int, format: str, message: str, tmp_path: Path
) -> None:
    """JSON lines had another year, or "<value out of range: N>"."""
    values = pa.StructArray.from_arrays([pa.array([value], kind)], ["at"])
    write_rows(tmp_path / "a.arrow", pa.table({"text": ["a"], "n": values}))
    with pytest.raises(InputError, match=f"column 'n' has {message} .*, which .* cannot hold; leave format out"):
        run_plain(tmp_path / "a.arrow", tmp_path / "out", format=format)


def test_a_dictionary_with_a_null_value_is_converted(tmp_path: Path) -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int16()), pa.array(["word", None]))
    write_rows(tmp_path / "a.arrow", pa.table({"text": ["a b", "c d", "e f"], "of": codes}))
    run(tmp_path / "a.arrow", tmp_path / "out", format="parquet")
    found = pq.read_table(tmp_path / "out/data/a.parquet")["of"]
    assert found.type == codes.type and found.to_pylist() == ["word", None, None]


def test_dictionaries_that_differ_by_batch_are_converted(tmp_path: Path) -> None:
    """Joined in one row group they had more values than codes, and no reader could read the file."""
    words = [pa.array([f"{batch} {word}" for word in range(100)]).dictionary_encode() for batch in "ab"]
    column = pa.chunked_array([part.cast(pa.dictionary(pa.int8(), pa.string())) for part in words])
    write_rows(tmp_path / "a.arrows", pa.table({"text": pa.nulls(200), "word": column}))
    run_plain(tmp_path / "a.arrows", tmp_path / "out", format="parquet")
    found = pq.read_table(tmp_path / "out/data/a.parquet")["word"]
    assert found.type == column.type and found.to_pylist() == column.to_pylist()


def test_kept_rows_of_every_type_become_json(types: Path, tmp_path: Path) -> None:
    run_plain(types / "every.arrow", tmp_path / "out", format="jsonl")
    found = read_rows(tmp_path / "out/data/every.jsonl")
    for column, values in COLUMNS.items():
        rows = values.to_pylist()
        assert [row[column] is None for row in found] == [rows[row] is None for row in STAY], column
    ids, intervals = str(uuid.UUID(int=5)), [1, 2, 3]
    for name, value in (("uuid", ids), ("bool8", True), ("month_day_nano_interval", intervals)):
        name = next(column for column in COLUMNS if column.endswith((name, f"{name}>")))
        for column, wanted in ((name, value), (f"struct of {name}", {"v": value}), (f"list of {name}", [value])):
            assert found[0][column] == wanted and type(found[0][column]) is type(wanted), column


NO_VALUE = pa.struct([("x", pa.int32()), ("none", pa.null())])  # as `datasets` writes a field that is always None


@pytest.mark.parametrize("kind", [NO_VALUE, pa.list_(NO_VALUE), pa.struct([("of", NO_VALUE), ("pair", PAIR)])])
def test_a_part_of_objects_with_a_field_without_values_is_converted(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow ended the process."""
    monkeypatch.setattr(conversion, "PART_BYTES", 256)
    value: Any = {"x": 1, "none": None}
    value = [value] if kind == pa.list_(NO_VALUE) else value if kind == NO_VALUE else {"of": value, "pair": [1, 2]}
    values = pa.array([value] * 90, kind)
    write_rows(tmp_path / "a.arrow", pa.table({"text": pa.nulls(90, pa.string()), "of": values}))
    run_plain(tmp_path / "a.arrow", tmp_path / "out", format="jsonl")
    assert [row["of"] for row in read_rows(tmp_path / "out/data/a.jsonl")] == [value] * 90
    assert cast_to(values.slice(88), parquet_type(kind)).to_pylist() == [value] * 2


def test_ids_of_every_type_are_written_to_parquet(tmp_path: Path) -> None:
    for name, values in COLUMNS.items():
        ids = joined_ids([values], [values.type])
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
def test_evidence_names_ids_of_awkward_types(name: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "a.arrow", pa.table({"text": SIX_TEXTS, "id": COLUMNS[name]}), 2)
    run_plain(tmp_path / "a.arrow", tmp_path / "out", id_column="id", write="marked")
    rows = COLUMNS[name].to_pylist()
    assert [row["id"] for row in evidence(tmp_path / "out")] == [rows[1], rows[5]]


def test_the_parquet_type_is_the_arrow_type_where_possible() -> None:
    for name, values in HELD.items():
        if "fixed_s" not in name and "dictionary<values=string_view" not in name and "of dictionary" not in name:
            assert parquet_type(values.type) == values.type


def test_converted_nested_dictionaries_are_read_by_pyarrow(types: Path, tmp_path: Path) -> None:
    run_plain(types / "held.arrow", tmp_path / "out", format="parquet")
    names = [name for name in HELD if "of dictionary" in name]
    table = pq.read_table(tmp_path / "out/data/held.parquet", columns=names)
    pq.write_table(table, tmp_path / "again.parquet", row_group_size=2)
    found = pq.ParquetFile(tmp_path / "again.parquet").read()
    assert len(names) == 4 and found.to_pylist() == table.to_pylist()
