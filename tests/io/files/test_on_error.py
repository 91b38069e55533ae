"""Bad records: the run stops and names the place, or skips, counts and lists them."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import DamagedInputError, InputError, InputTypeError, OutputError
from gpulsh.io.files.rejected import SCHEMA
from gpulsh.io.formats import jsonl, parquet
from gpulsh.run.index.jobs import build_index
from gpulsh.run.records import documents as passed_over
from gpulsh.store.columns import ColumnsFile
from tests.crash.test_resume import results
from tests.support.files import damage_column, read_rows, rejected, write_rows
from tests.support.runs import below, evidence, interrupting, run, small_partitions


def skip(inputs: Any, out: Path, **options: Any) -> Any:
    return run(inputs, out, on_error="skip", **options)


def text(number: int) -> str:
    return " ".join(f"w{number}x{place}" for place in range(20))


def line(value: Any) -> bytes:
    return json.dumps({"text": value}).encode()


def listed(out: Path) -> list[tuple[Any, ...]]:
    assert pq.read_schema(out / "rejected.parquet").names == ["file", "row", "rows", "unit", "offset", "reason"]
    return [(Path(row.pop("file")).name, *row.values()) for row in rejected(out)]


def kept_lines(out: Path, name: str) -> list[bytes]:
    return (out / "data" / name).read_bytes().split(b"\n")


BAD_LINES = [line(text(0)), b'{"text": "cut', line(text(1)), b"", b"[1, 2]", line(7), line(None), line(text(0))]


def test_bad_lines_are_listed_and_counted_as_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(BAD_LINES))
    result = skip(tmp_path / "a.jsonl", tmp_path / "out")
    # Line 4 is blank and no row at all.
    assert [(row[:5], row[5][:16]) for row in listed(tmp_path / "out")] == [
        (("a.jsonl", 1, 1, "line", 2), "line 2 is not JS"),
        (("a.jsonl", 3, 1, "line", 5), "line 5 is a list"),
        (("a.jsonl", 4, 1, "line", 6), "line 6: 'text' i"),
    ]
    assert kept_lines(tmp_path / "out", "a.jsonl") == [BAD_LINES[0], BAD_LINES[2], BAD_LINES[6], b""]
    (dropped,) = evidence(tmp_path / "out")
    assert (dropped["row"], dropped["duplicate_of_row"]) == (6, 0)
    names = ("documents", "rejected", "nulls", "empty", "kept", "dropped")
    assert [result.funnel[name] for name in names] == [4, 3, 1, 1, 3, 1]
    assert result.report["files"] == [{"file": str(tmp_path / "a.jsonl"), "rows": 7}]
    assert result.report["parameters"]["on_error"] == "skip"
    assert "rejected.parquet" in result.report["outputs"]


def test_files_of_only_good_or_only_bad_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([line(text(0)), line(text(0)), line(None)]))
    assert listed(Path(skip(tmp_path / "a.jsonl", tmp_path / "out").output)) == []
    run(tmp_path / "a.jsonl", tmp_path / "plain")
    for name in ("data/a.jsonl", "duplicates.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    assert not (tmp_path / "plain/rejected.parquet").exists()
    (tmp_path / "b.jsonl").write_bytes(b"{\n[")
    assert skip(tmp_path / "b.jsonl", tmp_path / "out2").funnel["rejected"] == 2
    assert (tmp_path / "out2/data/b.jsonl").read_bytes() == b""


def test_bad_lines_are_skipped_when_keep_names_a_column(tmp_path: Path) -> None:
    """This includes the first line."""
    records = [b"{", *(b'{"text": "%s", "n": %d}' % (text(0).encode(), n) for n in (1, 2)), b"["]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(records))
    skip(tmp_path / "a.jsonl", tmp_path / "out", keep="n")
    assert kept_lines(tmp_path / "out", "a.jsonl") == [records[2], b""]


def test_a_missing_or_wrong_column_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"body": "x"}\n{"body": "y"}')
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        with pytest.raises(InputError, match="has no column 'text'"):
            skip(tmp_path / name, tmp_path / "out")
    (tmp_path / "k.jsonl").write_bytes(b'{"text": "x", "n": "high"}')
    with pytest.raises(InputTypeError, match="line 1: 'n' is 'high'; keep takes numbers, or dates"):
        skip(tmp_path / "k.jsonl", tmp_path / "out", keep="n")


def damaged_parquet(path: Path, groups: int, damaged: int, column: str = "text") -> None:
    """Row group `damaged`, of 100 rows as each, cannot be read in `column`; every group repeats a text of the first."""
    texts = [text(number if number % 100 else 0) for number in range(groups * 100)]
    write_rows(path, pa.table({"text": texts, "n": range(groups * 100)}), 100)
    damage_column(path, damaged, column)


@pytest.mark.parametrize("backend", ["reference", "cpu"])  # the one reads whole files, the other row groups in threads
def test_only_the_damaged_row_group_is_rejected(tmp_path: Path, backend: str) -> None:
    damaged_parquet(tmp_path / "a.parquet", 3, 1)
    with pytest.raises(DamagedInputError, match=r"a\.parquet: cannot be read"):
        run(tmp_path / "a.parquet", tmp_path / "out", backend=backend)
    result = skip(tmp_path / "a.parquet", tmp_path / "out", backend=backend, keep="n", id_column="n")
    ((*place, reason),) = listed(tmp_path / "out")
    assert place == ["a.parquet", 100, 100, "row", 100]
    assert reason.startswith("row group 1 cannot be read: ")
    names = ("documents", "rejected", "nulls", "empty", "dropped", "kept")
    assert [result.funnel[name] for name in names] == [200, 100, 0, 0, 1, 199]
    assert [row["n"] for row in read_rows(tmp_path / "out/data/a.parquet")] == [*range(1, 100), *range(200, 300)]
    (dropped,) = evidence(tmp_path / "out")
    assert (dropped["row"], dropped["id"], dropped["duplicate_of_row"]) == (0, 0, 200)


@pytest.mark.parametrize("groups", [1, 2])
def test_rows_before_the_damage_in_a_row_group_are_rejected_once(
    tmp_path: Path, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "DECODED_BYTES", 1000)
    table = pa.table({"text": [f"{text(number)} {number}" for number in range(groups * 100)]})
    how: dict[str, Any] = {"use_dictionary": False, "compression": "none", "data_page_size": 100, "write_batch_size": 1}
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100, **how)
    damage_column(tmp_path / "a.parquet", groups - 1, "text")
    funnel = skip(tmp_path / "a.parquet", tmp_path / "out").funnel
    assert (funnel["documents"], funnel["rejected"]) == (groups * 100 - 100, 100)
    assert len(read_rows(tmp_path / "out/data/a.parquet")) == groups * 100 - 100


def test_damage_elsewhere_in_a_row_stops_the_run(tmp_path: Path) -> None:
    damaged_parquet(tmp_path / "a.parquet", 2, 1, column="n")
    with pytest.raises(DamagedInputError, match="cannot be read"):
        skip(tmp_path / "a.parquet", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_an_unreadable_file_is_listed_and_not_written(tmp_path: Path, backend: str) -> None:
    names = ["a.parquet", "b.arrow", "c.jsonl.gz", "d.jsonl.zst"]
    for name in names:
        (tmp_path / name).write_bytes(b"no such thing")
    pq.write_table(pa.table({"text": [text(0), text(0), None], "n": [7, 8, 9]}), tmp_path / "e.parquet")
    inputs = [tmp_path / name for name in [*names, "e.parquet"]]
    result = skip(inputs, tmp_path / "out", backend=backend, id_column="n")
    assert [row[:5] for row in listed(tmp_path / "out")] == [(name, 0, 0, "row", 0) for name in names]
    assert [path.name for path in (tmp_path / "out/data").iterdir()] == ["e.parquet"]
    assert (result.funnel["documents"], result.funnel["rejected"], result.funnel["nulls"]) == (3, 4, 1)
    (dropped,) = evidence(tmp_path / "out")
    assert (Path(dropped["file"]).name, dropped["row"], dropped["duplicate_of_id"]) == ("e.parquet", 1, 7)


@pytest.mark.parametrize("parts", [1, 1000])
def test_a_large_file_that_readers_refuse_is_listed(parts: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that would have parts ended the run."""
    monkeypatch.setattr("gpulsh.budget.PART_BYTES", 10)
    monkeypatch.setattr("gpulsh.run.job.MIN_PARTS", parts)
    lines = b"\n".join(map(line, range(9)))
    for name, content in (("a", gzip.compress(lines)), ("b", lines.decode().encode("utf-16"))):
        Path(f"{name}.txt").write_bytes(content)
    Path("a.jsonl").write_bytes(gzip.compress(lines))
    for inputs, options in ((["a.jsonl"], {}), (["a.txt", "b.txt"], {"lines": True})):
        assert skip(inputs, Path(f"of{len(inputs)}"), **options).funnel["documents"] == 0
        assert [row[:5] for row in listed(Path(f"of{len(inputs)}"))] == [(name, 0, 0, "row", 0) for name in inputs]


def test_arrow_batches_before_the_damage_are_read(tmp_path: Path) -> None:
    table = pa.table({"text": [text(n // 2) for n in range(40)], "n": range(40)})
    path = Path(write_rows(tmp_path / "a.arrows", table, 10))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with pytest.raises(DamagedInputError):
        run(tmp_path / "a.arrows", tmp_path / "out")
    skip(tmp_path / "a.arrows", tmp_path / "out", id_column="n")
    assert [row[:5] for row in listed(tmp_path / "out")] == [("a.arrows", 20, 0, "row", 20)]
    assert [row["n"] for row in read_rows(tmp_path / "out/data/a.arrows")] == list(range(0, 20, 2))


def test_a_file_without_read_permission_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(line(text(0)))

    def denied(self: object, path: str, flags: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gpulsh.io.file.File._handle", denied)
    with pytest.raises(InputError, match=r"a\.jsonl: cannot be read: Permission denied") as caught:
        skip(tmp_path / "a.jsonl", tmp_path / "out")
    assert not isinstance(caught.value, DamagedInputError)


def test_a_resumed_run_lists_the_same_bad_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(BAD_LINES))
    damaged_parquet(tmp_path / "d.parquet", 3, 1)
    (tmp_path / "e.jsonl.gz").write_bytes(b"no gzip")
    inputs = sorted(path for path in tmp_path.iterdir())
    small_partitions(monkeypatch, 100)
    monkeypatch.setattr("gpulsh.run.output.folder.worth_resuming", lambda manifest: True)
    whole = skip(inputs, tmp_path / "whole")
    with interrupting():
        skip(inputs, tmp_path / "out")
    resumed = skip(inputs, tmp_path / "out", resume=True)
    assert below(tmp_path / "whole/data") == {"a.jsonl", "b.jsonl", "c.jsonl", "d.parquet"}
    assert results(tmp_path / "out") == results(tmp_path / "whole")
    for name in ("documents", "rejected", "nulls", "empty", "kept", "dropped"):
        assert resumed.funnel[name] == whole.funnel[name]
    assert whole.funnel["rejected"] == 3 * 3 + 100 + 1
    with pytest.raises(OutputError, match="on_error"):
        run(inputs, tmp_path / "out", resume=True)


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


NO_DEEPER = pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python's parser goes as deep as orjson")


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b'"id": %s, "n": 5' % deep(1000), id="deep", marks=NO_DEEPER),
        pytest.param(b'"id": "x", "n": 1e20, "deep": %s' % deep(1000), id="beside a large number", marks=NO_DEEPER),
        pytest.param(b'"id": %s, "n": 5' % deep(100_000), id="too deep"),
    ],
)
def test_values_nested_too_deeply_are_bad_records(tmp_path: Path, bad: bytes) -> None:
    # Twice, so that the second is dropped for the first, and its id listed, unless it is rejected.
    given = [json.dumps({"text": text(number), "id": f"i{number}", "n": number}).encode() for number in (1, 2, 1)]
    record = b'{"text": "a page of words", %s}' % bad
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*given[:2], record, record, given[2]]))
    options = {"id_column": "id", "keep": "n"}
    with pytest.raises(DamagedInputError, match=r"a\.jsonl: line 3.*nested too deeply"):
        run(tmp_path / "a.jsonl", tmp_path / "out", **options)
    if b"1e20" not in bad:  # beside which the id is whole
        with pytest.raises(DamagedInputError, match=r"a\.jsonl: line 3"):
            build_index(tmp_path / "known", [str(tmp_path / "a.jsonl")], id_column="id")
    skip(tmp_path / "a.jsonl", tmp_path / "out", **options)
    assert [row[:5] for row in listed(tmp_path / "out")] == [("a.jsonl", n, 1, "line", n + 1) for n in (2, 3)]
    assert kept_lines(tmp_path / "out", "a.jsonl") == [*given[:2], b""]


@pytest.mark.parametrize("depth", [400, 1000])
def test_deep_objects_become_text_in_parquet(depth: int, tmp_path: Path) -> None:
    """They ended in a RecursionError; text of JSON takes levels that no struct takes."""
    deep = b'{"text": "a b c", "deep": ' + b'{"a": ' * depth + b"1" + b"}" * depth + b"}"
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x y z"}\n' + deep + b"\n")
    try:
        run(tmp_path / "a.jsonl", tmp_path / "out", format="parquet")
    except InputError as error:
        assert depth == 1000 and str(error).endswith("is nested too deeply; flatten it, or leave format out")
    else:
        (_, found) = pq.read_table(tmp_path / "out/data/a.parquet")["deep"].to_pylist()
        for _ in range(31):
            found = found["a"]
        assert found.count("{") == depth - 31


@pytest.mark.parametrize(
    ("field", "id"),
    [
        *((b'"other": "\\ud800"', "a"), (b'"\\udfff": 1', "a"), (b'"id": ["\\ud800"]', r'["\ud800"]')),
        (b'"id": "\\ud800"', "\ufffd"),
    ],
)
def test_a_lone_surrogate_is_copied_and_replaced_in_ids(tmp_path: Path, field: bytes, id: str) -> None:
    given = b'{"id": "a", "text": "a page of words", ' + field + b"}"
    (tmp_path / "a.jsonl").write_bytes(given + b"\n" + given)
    run(tmp_path / "a.jsonl", tmp_path / "out", id_column="id")
    assert (tmp_path / "out/data/a.jsonl").read_bytes().rstrip() == given
    assert [row["id"] for row in evidence(tmp_path / "out")] == [id]


@pytest.mark.parametrize("known", [False, True])
def test_bad_records_are_listed_in_bounded_memory(known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_REJECTED", 1000)
    monkeypatch.setattr(jsonl, "PARSED_ROWS", 1 << 20)
    monkeypatch.setattr(passed_over, "HELD_ROWS", 2500)
    held: list[int] = []

    append = ColumnsFile.append

    def seen(self: ColumnsFile, columns: Any) -> None:
        if len(columns) == len(SCHEMA):
            held.append(len(columns[0]))
        append(self, columns)

    monkeypatch.setattr(ColumnsFile, "append", seen)
    bad = 9000
    (tmp_path / "a.jsonl").write_bytes(line(text(0)) + b"\n" + b"{\n" * bad + line(text(0)) + b"\n" + b"[]\n")
    options = {"index": tmp_path / "index"} if known else {}
    if known:
        (tmp_path / "b.jsonl").write_bytes(line(text(1)))
        build_index(tmp_path / "index", [str(tmp_path / "b.jsonl")], backend="reference")
    result = skip(tmp_path / "a.jsonl", tmp_path / "out", **options)
    assert held == [3000, 3000, 3000, 1]
    assert (result.funnel["documents"], result.funnel["rejected"], result.funnel["dropped"]) == (2, bad + 1, 1)
    found = pq.read_table(tmp_path / "out/rejected.parquet")
    assert found.column("row").to_pylist() == [*range(1, bad + 1), bad + 2]
    assert found.column("offset").to_pylist() == [*range(2, bad + 2), bad + 3]
    assert kept_lines(tmp_path / "out", "a.jsonl") == [line(text(0)), b""]
