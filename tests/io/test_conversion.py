"""Kept rows in another format than their file's: what each gives, and under which names."""

import gzip
import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import InputError, LargeDocumentError, OutputError, ParameterError
from gpulsh.io import conversion
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.formats.json_types import MOST_FIELDS, Odd, Shape, record_batch
from gpulsh.io.limits import Limit
from gpulsh.run.stages import write
from tests.crash.test_resume import results
from tests.support.files import UNPACK, record, write_rows

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
    """A file of each kind of format; COPY comes first in a.jsonl and is dropped elsewhere."""
    folder = tmp_path / "in"
    folder.mkdir()
    contents = {
        "a.jsonl": b"\n".join(LINES),
        "b.json": b'[{"text":\n "in an array"}, {"text": "%s"}]' % COPY.encode(),
        "c.csv.gz": gzip.compress(b'text,n\n"two\nlines",1\n\xff!,\n%s,2\n' % COPY.encode()),
        "f.txt": b"plain\n",
        "g.txt": COPY.encode(),
        "h.warc.gz": crawled(0, COPY) + crawled(1, "crawled"),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    pq.write_table(TYPED, folder / "d.parquet")
    write_rows(folder / "e.arrow", TYPED.slice(1))
    return folder


def run(inputs: Any, out: Path, **options: Any) -> Path:
    gpulsh.deduplicate_files(inputs, out, backend="reference", shingling="word:1", **options)
    return out / "data"


def lines(path: Path) -> list[bytes]:
    return UNPACK[path.suffix[1:] if path.suffix in (".gz", ".zst") else ""](path.read_bytes()).splitlines()


def test_to_parquet(inputs: Path, tmp_path: Path) -> None:
    data = run(inputs, tmp_path / "out", format="parquet")
    names = sorted(path.name for path in data.iterdir())
    assert names == [f"{name}.parquet" for name in "abcdefh"]  # of the text that is dropped there is none
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


def test_to_json_lines(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = run(inputs, tmp_path / "out", format="jsonl")
    names = ["a.jsonl", "b.jsonl", "c.jsonl.gz", "d.jsonl", "e.jsonl", "f.jsonl", "h.jsonl.gz"]
    assert sorted(path.name for path in data.iterdir()) == names
    assert lines(data / "a.jsonl") == [LINES[0], LINES[2]]
    assert lines(data / "b.jsonl") == [b'{"text":  "in an array"}']
    nulls = dict.fromkeys(AS_JSON)
    expected = [[{"text": "two\nlines", "n": "1"}, {"text": "\ufffd!", "n": None}], [AS_JSON, nulls], [nulls]]
    expected += [[{"text": "plain\n"}], [CRAWLED]]
    assert [list(map(json.loads, lines(data / name))) for name in names[2:]] == expected
    monkeypatch.setattr(conversion, "PART_BYTES", 1)  # each row is a large one, whose text goes in pieces
    again = run(inputs, tmp_path / "again", format="jsonl")
    assert all((again / name).read_bytes() == (data / name).read_bytes() for name in names)


def test_a_codec_that_is_asked_for(inputs: Path, tmp_path: Path) -> None:
    data = run(inputs, tmp_path / "lines", format="jsonl", compression="zstd:9")
    assert {path.suffixes[-2] + path.suffix for path in data.iterdir()} == {".jsonl.zst"}
    assert lines(data / "a.jsonl.zst") == [LINES[0], LINES[2]]
    data = run(inputs, tmp_path / "columns", format="parquet", compression="snappy")
    assert {pq.read_metadata(path).row_group(0).column(0).compression for path in data.iterdir()} == {"SNAPPY"}


def test_what_is_refused(inputs: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["parquet", "jsonl"])
def test_a_run_that_goes_on_gives_the_same(inputs: Path, tmp_path: Path, name: str) -> None:
    run(inputs, tmp_path / "whole", format=name)
    done: list[str] = []

    def write_kept(name: Any, columns: Any, file: File, *rest: Any, **how: Any) -> None:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(file.name)
        real(name, columns, file, *rest, **how)

    real = write.write_kept
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(write, "write_kept", write_kept)
        run(inputs, tmp_path / "out", format=name, threads=1)
    with pytest.raises(OutputError, match=f"format was '{name}' and is absent now"):
        run(inputs, tmp_path / "out", resume=True)
    run(inputs, tmp_path / "out", format=name, resume=True)
    assert results(tmp_path / "out") == results(tmp_path / "whole")


def test_a_value_too_large_for_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"text": ["a"], "list": [["b" * 100] * 100]})
    assert len(b"".join(conversion.json_lines(File("a", "a", "a"), [batch], Columns("text"), Limit(1 << 20)))) > 10_000
    monkeypatch.setattr(conversion, "PART_BYTES", 1)
    with pytest.raises(LargeDocumentError, match=r"a value of column 'list' as JSON: about .* bytes to read"):
        list(conversion.json_lines(File("a", "a", "a"), [batch], Columns("text"), Limit(1 << 12)))


def test_row_groups_are_filled_by_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "GROUP_ROWS", 5)
    batches: Iterator[pa.RecordBatch] = (pa.record_batch({"n": [place, place]}) for place in range(4))
    conversion.write_row_groups(File("a", "a", "a"), batches, str(tmp_path / "a"), None)
    found = pq.ParquetFile(tmp_path / "a").metadata
    assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == [6, 2]


def test_types_and_values_that_parquet_lacks(tmp_path: Path) -> None:
    for values, told in (
        (pa.array([None], pa.month_day_nano_interval()), "is month_day_nano_interval, which Parquet cannot hold"),
        (pa.array([1 << 60], pa.timestamp("s")), r"has values beyond the range of Parquet, as timestamp\[s\]"),
    ):
        batches = iter([pa.record_batch([values], names=["n"])])
        with pytest.raises(InputError, match=f"column 'n' {told}"):
            conversion.write_row_groups(File("a", "a", "a"), batches, str(tmp_path / "a"), None)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([None, None], pa.large_string(), [None, None]),
        ([1, None, 2**60], pa.int64(), [1, None, 2**60]),
        ([1, 2.5, float("nan")], pa.float64(), [1.0, 2.5, None]),
        ([2**60, 2.5], pa.large_string(), [str(2**60), "2.5"]),
        ([True, 1], pa.large_string(), ["true", "1"]),
        (["a", float("nan"), "\ud800"], pa.large_string(), ["a", None, "\ufffd"]),
        ([{}, {}], pa.large_string(), ["{}", "{}"]),
        ([[], [1], ["a"]], pa.list_(pa.large_string()), [[], ["1"], ["a"]]),
        ([{"a": 1}, {"a": [2]}], pa.struct([("a", pa.large_string())]), [{"a": "1"}, {"a": "[2]"}]),
        ([{str(n): n for n in range(MOST_FIELDS + 1)}, None], pa.large_string(), None),
    ],
)
def test_a_type_holds_all_values_of_a_field(values: list[Any], kind: pa.DataType, expected: list[Any] | None) -> None:
    shape = Shape()
    for value in values:
        shape.see({"field": value})
    found = record_batch(shape.columns(), [{"field": value} for value in values]).column(0)
    assert found.type == kind
    told = [None if isinstance(value, float) and value != value else value for value in found.to_pylist()]
    assert told == (expected or [json.dumps(values[0]), None])
    assert not shape.has(Odd.GREAT)
