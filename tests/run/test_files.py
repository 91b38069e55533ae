"""Files in, kept rows and evidence out: every format, every column, the same decision as in memory."""

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.report.page import missing_requirement
from gpulsh.run.files import deduplicate_files
from tests.support.files import PACK, UNPACK, write_rows
from tests.support.runs import below, evidence, interrupting, run

REPORTS = {"report.json"} if missing_requirement() else {"report.json", "report.html"}
FOX = "the quick brown fox jumps over the lazy dog and runs far away from here into the deep dark woods of the north"
BACK = " ".join(FOX.split()[::-1])
TEXTS = [FOX, BACK, None, "", FOX + " indeed", "tiny text", FOX]
KEPT_ALONE = [0, 1, 2, 3, 5]  # of TEXTS by themselves
ALL_IDS = [f"id-{number}" for number in range(7)]


def table() -> pa.Table:
    return pa.table({"id": ALL_IDS, "text": TEXTS, "nested": [{"a": [row]} for row in range(7)]})


def lines(texts: list[Any] = TEXTS, **more: list[Any]) -> list[bytes]:
    rows = [
        {"id": f"id-{row}", "text": text, **{name: values[row] for name, values in more.items()}}
        for row, text in enumerate(texts)
    ]
    return [json.dumps(row, ensure_ascii=False).encode() for row in rows]


def write_lines(path: str | Path, texts: list[Any] = TEXTS, **more: list[Any]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(b"\n".join(lines(texts, **more)))


# --- formats ---


def test_parquet_keeps_every_column_and_joins_small_row_groups(tmp_path: Path) -> None:
    given = table().replace_schema_metadata({"mine": "yes"})
    pq.write_table(given, tmp_path / "a.parquet", row_group_size=3, compression="zstd")
    result = run(tmp_path / "a.parquet", tmp_path / "out", id_column="id")
    kept = pq.ParquetFile(tmp_path / "out/data/a.parquet")
    assert kept.read().equals(given.take(KEPT_ALONE))
    assert kept.schema_arrow.metadata[b"mine"] == b"yes"
    assert [kept.metadata.row_group(group).num_rows for group in range(kept.num_row_groups)] == [5]
    assert kept.metadata.row_group(0).column(0).compression == "ZSTD"
    assert below(tmp_path / "out") == {"data/a.parquet", "duplicates.parquet", "clusters.parquet", *REPORTS}
    assert (result.funnel["dropped"], result.funnel["nulls"]) == (2, 1)
    path = str(tmp_path / "a.parquet")
    assert [tuple(row.values()) for row in evidence(tmp_path / "out")] == [
        (path, row, f"id-{row}", path, 0, "id-0", pytest.approx(similarity), 0)
        for row, similarity in ((4, 19 / 20), (6, 1.0))
    ]


def test_json_lines_are_copied_byte_for_byte(tmp_path: Path) -> None:
    odd = b'{ "text" : "\\ud800 lone", "n":1.50, "big":123456789012345678901234567890, "x": NaN, "y":"caf\\u00e9" }'
    given = [*lines(), odd, b'{"no_text": 1}']
    kinds = list(product([".jsonl", ".jsonl.gz", ".ndjson.zst", ".JSON"], [b"\n", b"\r\n", b"\n \n"], [b"\n", b""]))
    paths = [tmp_path / f"{number}{kind[0]}" for number, kind in enumerate(kinds)]
    packed = [ending.rpartition(".")[2] if ending.count(".") == 2 else "" for ending, _, _ in kinds]
    for path, pack, (_, end_of_line, last) in zip(paths, packed, kinds, strict=True):
        path.write_bytes(PACK[pack](end_of_line.join(given) + last))
    result = run(paths, tmp_path / "out", id_column="id", within=True)
    for path, pack, (_, end_of_line, last) in zip(paths, packed, kinds, strict=True):
        kept = UNPACK[pack]((tmp_path / "out/data" / path.name).read_bytes())
        end = b"\r\n" if end_of_line == b"\r\n" else b"\n"
        assert kept == end.join(given[row] for row in (*KEPT_ALONE, 7, 8)) + last
    found = [(row["file"], row["row"], row["id"]) for row in evidence(tmp_path / "out")]
    assert found == [(str(path), row, f"id-{row}") for path in paths for row in (4, 6)]
    assert result.funnel["nulls"] == 2 * len(kinds)


def test_byte_order_marks_and_long_lines_are_copied(folder: Path) -> None:
    mark, long = b"\xef\xbb\xbf", "word " * 2_000_000  # longer than a block of the reader
    Path("a.jsonl").write_bytes(mark + b"\n".join(lines([FOX, long, FOX])))
    run("a.jsonl", backend="cpu")
    assert Path("out/data/a.jsonl").read_bytes() == mark + b"\n".join(lines([FOX, long])) + b"\n"
    given = lines([FOX, FOX, BACK])
    for first in (b"", b" \r"):  # a mark on a line of its own is no row
        Path("b.jsonl").write_bytes(mark + b"\n".join([first, *given]))
        assert run("b.jsonl", overwrite=True).report["files"][0]["rows"] == 3
        assert [row["row"] for row in evidence("out")] == [1]
        assert Path("out/data/b.jsonl").read_bytes() == given[0] + b"\n" + given[2]


def test_text_files_are_one_document_each(folder: Path) -> None:
    Path("in").mkdir()
    for name, text in (("b", FOX.encode()), ("a", FOX.upper().encode() + b"\r\n\xff"), ("c", b"")):
        Path(f"in/{name}.txt").write_bytes(text)
    run("in")
    assert below("out/data") == {"a.txt", "c.txt"}
    assert Path("out/data/a.txt").read_bytes() == FOX.upper().encode() + b"\r\n\xff"


def test_files_without_rows_are_written_empty(folder: Path) -> None:
    write_rows("a.parquet", table().slice(0, 0))
    write_lines("b.jsonl", [])
    assert run(["a.parquet", "b.jsonl"], id_column="id").funnel["documents"] == 0
    assert pq.read_table("out/data/a.parquet").schema.names == ["id", "text", "nested"]
    assert Path("out/data/b.jsonl").read_bytes() == b"" and evidence("out") == []


# --- order and names ---


def test_inputs_are_read_in_order_and_keep_their_names(folder: Path) -> None:
    for name in ("in/b", "in/a/z", "in/a", "in/B", "in/_no", "in/.no", "one", "in/_skipped/_x"):
        write_lines(f"{name}.jsonl", [FOX])
    Path("in/readme.md").write_text("not read")
    result = run(["one.jsonl", "in/"])
    names = [entry["file"] for entry in result.report["files"]]
    assert names == ["one.jsonl", "in/B.jsonl", "in/a.jsonl", "in/a/z.jsonl", "in/b.jsonl"]
    assert {row["duplicate_of_file"] for row in evidence("out")} == {"one.jsonl"}
    places = {"one.jsonl", "B.jsonl", "a.jsonl", "a/z.jsonl", "b.jsonl"}
    assert below("out/data") == places

    result = run("in/**/[!_]*.jsonl", "globbed")
    assert [entry["file"] for entry in result.report["files"]] == names[1:]
    assert below("globbed/data") == places - {"one.jsonl"}

    write_rows("a[1].jsonl", [FOX])  # exists, and is no pattern then
    run("a[1].jsonl", "named")
    assert below("named/data") == {"a[1].jsonl"}

    with pytest.raises(InputError, match=r"in/a\.jsonl: is given twice, also as \./in/a\.jsonl"):
        run(["./in/a.jsonl", "in"], "twice")
    write_lines("other/one.jsonl", [BACK])
    run(["one.jsonl", "other"], "same")
    assert below("same/data") == {"one.jsonl", "other/one.jsonl"}
    os.symlink("../../in", "in/a/loop")
    with pytest.raises(InputError, match="leads back"):
        run("in", "loop")
    assert not {"twice", "loop"} & set(os.listdir())


def test_a_file_url_names_the_same_file_as_a_path(folder: Path) -> None:
    """Otherwise a file's documents would all duplicate themselves, or results be written among documents."""
    for name in ("a", "b"):
        write_lines(f"{name}/x.jsonl")
    with pytest.raises(InputError, match="is given twice, also as "):
        run("a", protect=[f"file://{folder}/a"])
    with pytest.raises(InputError, match="is given twice, also as "):
        run([f"local://{folder}/a/*.jsonl", "a/x.jsonl"])
    with pytest.raises(OutputError, match="is inside the input"):
        run(f"file://{folder}/a", "a/out")
    result = run([f"file://{folder}/a", "b"])
    assert [entry["file"] for entry in result.report["files"]] == [f"file://{folder}/a/x.jsonl", "b/x.jsonl"]
    assert below("out/data") == {"a/x.jsonl", "b/x.jsonl"}


def test_input_names_need_not_be_utf8(folder: Path) -> None:
    write_lines("in/\udcff.jsonl")
    with open("in/\udcff.parquet", "wb") as file:
        pq.write_table(table(), file)
    run("in", id_column="id")
    assert {row["duplicate_of_file"] for row in evidence("out")} == {"in/\ufffd.jsonl"}
    assert sorted(os.listdir(b"out/data")) == [b"\xff.jsonl", b"\xff.parquet"]


# --- keep, ids, write ---


@pytest.mark.parametrize(
    "scores", [[2**53, 0, 0, None, 2**53 + 1, 0, float(2**53)], [10**29, 0, 0, None, 10**29 + 2, 0, 10**29 + 1]]
)
def test_keep_compares_large_numbers_exactly(tmp_path: Path, scores: list[Any]) -> None:
    write_lines(tmp_path / "a.jsonl", first=scores)
    run(tmp_path / "a.jsonl", tmp_path / "out", keep="column:first")
    assert {row["duplicate_of_row"] for row in evidence(tmp_path / "out")} == {4}


@pytest.mark.parametrize(
    "ids",
    [
        [10, 11, 12, 13, 14, 15, 16],
        ["a", 1, None, 2.5, {"x": 1}, 6, 7],
        *([least + row for row in range(7)] for least in (10**29, -(2**63) - 6, 2**64)),
        *([[10**29 + row] for row in range(7)], [{"x": {"y": 10**29 + row}} for row in range(7)]),
        *([empty] * 7 for empty in ({}, {"x": {}}, [{}])),
        [{"x": 1}, *[{"y": row} for row in range(6)]],  # one Arrow type would give each the fields of both
    ],
)
def test_ids_of_json_lines_are_integers_or_text(tmp_path: Path, ids: list[Any]) -> None:
    write_lines(tmp_path / "a.jsonl", key=ids)
    run(tmp_path / "a.jsonl", tmp_path / "out", id_column="key")
    plain = ids[0] == 10
    assert id_types(tmp_path / "out") == [pa.int64() if plain else pa.string()] * 2
    wanted = ids if plain else [id if isinstance(id, str) else json.dumps(id) for id in ids]
    assert [row["id"] for row in evidence(tmp_path / "out")] == [wanted[4], wanted[6]]
    assert [row["duplicate_of_id"] for row in evidence(tmp_path / "out")] == [wanted[0]] * 2


def id_types(out: Path) -> list[pa.DataType]:
    schema = pq.read_schema(out / "duplicates.parquet")
    return [schema.field("id").type, schema.field("duplicate_of_id").type]


CODES = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(
    ("kinds", "found", "dropped"),  # in how many of the files
    [
        ([pa.uint32(), pa.int64()], pa.int64(), 0),
        ([pa.uint8(), pa.int8()], pa.int64(), 1),
        ([pa.int16(), pa.int32()], pa.int64(), 2),
        ([pa.uint8(), pa.uint64()], pa.uint64(), 1),
        ([pa.uint64(), pa.int8()], pa.string(), 2),
        ([pa.string(), pa.large_string()], pa.large_string(), 0),
        ([pa.null(), pa.int8()], pa.int8(), 2),
        ([pa.int64(), pa.string()], pa.string(), 0),
        ([pa.int64(), pa.float64()], pa.string(), 1),
        *(([kind], kind, 0) for kind in (pa.uint16(), pa.string(), pa.timestamp("us"))),
        ([CODES], pa.string(), 0),
    ],
)
@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_ids_of_several_files_share_a_type(
    tmp_path: Path, kinds: list[pa.DataType], found: pa.DataType, dropped: int, ending: str
) -> None:
    """This holds without drops, and without any known id."""
    texts = [[FOX, FOX if dropped else BACK], [FOX if dropped == 2 else "other words", "tiny text"]]
    unknown = [len(kinds) == 1 or pa.types.is_null(kind) for kind in kinds]
    ids = [pa.array([None, None] if none else [1, 2]).cast(kind) for none, kind in zip(unknown, kinds, strict=True)]
    tables = [pa.table({"id": values, "text": texts[n]}) for n, values in enumerate(ids)]
    files = [write_rows(tmp_path / f"{n}{ending}", table) for n, table in enumerate(tables)]
    run(files, tmp_path / "out", id_column="id")
    assert id_types(tmp_path / "out") == [found] * 2
    wanted = [values[1 - n].as_py() for n, values in enumerate(ids)][:dropped]
    wanted = [str(value) if pa.types.is_string(found) else value for value in wanted]
    assert [row["id"] for row in evidence(tmp_path / "out")] == wanted


def test_ids_of_a_type_that_parquet_lacks_become_text(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([{}, {}], pa.struct([])), "text": [FOX, FOX]})
    run(write_rows(tmp_path / "a.arrow", rows), tmp_path / "out", id_column="id")
    assert [row["id"] for row in evidence(tmp_path / "out")] == ["{}"]


def test_write_duplicates_gives_evidence_and_report_alone(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.parquet", table())
    result = run(path, tmp_path / "out", write="duplicates", threshold=0.7, keep="longest")
    assert below(tmp_path / "out") == {"duplicates.parquet", "clusters.parquet", *REPORTS} and result.data is None
    schema = pq.read_schema(result.duplicates)
    places = ["file", "row", "id", "duplicate_of_file", "duplicate_of_row", "duplicate_of_id"]
    assert schema.names == [*places, "similarity", "cluster"]
    assert schema.field("similarity").type == pa.float32()
    assert {schema.field(name).type for name in ("row", "duplicate_of_row", "cluster")} == {pa.int64()}
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report == result.report and report["gpulsh"] == gpulsh.__version__
    assert (report["parameters"]["threshold"], report["parameters"]["keep"]) == (0.7, "longest")
    assert report["backend"]["name"] == "reference"
    assert set(report["outputs"]) == below(tmp_path / "out")
    assert [report["funnel"][name] for name in ("documents", "dropped", "kept")] == [7, 2, 5]
    assert {"sign", "verify", "write"} <= set(report["funnel"]["seconds"])


# --- the output folder ---


def test_overwrite_replaces_only_files_of_gpulsh(folder: Path) -> None:
    for name in "ab":
        write_lines(f"{name}.jsonl")
    run("a.jsonl")
    with pytest.raises(OutputError, match="earlier run"):
        run("b.jsonl")
    Path("out/notes.txt").write_text("mine")
    run("b.jsonl", overwrite=True)
    assert below("out") == {"data/b.jsonl", "duplicates.parquet", "clusters.parquet", *REPORTS, "notes.txt"}

    Path("out/data/mine.txt").write_text("mine")
    before = below("out")
    with pytest.raises(OutputError, match=r"data/mine\.txt, which gpulsh did not write"):
        run("a.jsonl", overwrite=True)
    assert below("out") == before

    for folder in ("theirs/folder", "begun/_work"):  # a kill may leave the work folder empty
        os.makedirs(folder)
    with pytest.raises(OutputError, match=r"^theirs: holds files that gpulsh did not write; give another folder$"):
        run("a.jsonl", "theirs", overwrite=True)
    run("a.jsonl", "begun", overwrite=True)
    assert os.listdir("theirs") == ["folder"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_failed_overwrites_leave_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    write_lines(tmp_path / "a.jsonl")
    out = tmp_path / "out"
    run(tmp_path / "a.jsonl", out)
    before = {name: (out / name).read_bytes() for name in below(out)}
    rename, count = os.rename, 0

    def failing(source: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == 5:  # in the middle of the new results, the old ones already aside
            raise error
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", failing)
        with pytest.raises((KeyboardInterrupt, OutputError)):
            run(tmp_path / "a.jsonl", out, overwrite=True, threshold=1.0)
    there = below(out)
    assert {name: (out / name).read_bytes() for name in there if not name.startswith("_work/")} == before
    if isinstance(error, KeyboardInterrupt):
        run(tmp_path / "a.jsonl", out, resume=True, threshold=1.0)
        assert (out / "data/a.jsonl").read_bytes() != before["data/a.jsonl"]
    assert below(out) == set(before)


def test_an_interrupt_before_the_first_step_leaves_nothing(folder: Path) -> None:
    write_lines("a.jsonl")
    Path("empty").mkdir()  # the user's own folder stays
    for out in ("new/deep/out", "empty"):
        with interrupting("sign_partition"):
            run("a.jsonl", out)
    assert sorted(map(str, Path().rglob("*"))) == ["a.jsonl", "empty"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": []}, "inputs is empty"),
        ({"inputs": [3]}, "inputs[0] is of type int"),
        ({"inputs": ["", "."]}, "an INPUT is empty; give a file, folder"),
        ({"protect": ""}, "protect is empty; give a file, folder"),
        ({"inputs": None}, "inputs is None; give a path"),
        ({"keep": 3}, "keep is 3; give first, longest, source:INPUT,INPUT... or the name of a column"),
        *(({"text_column": value}, f"{value}; give the name of a column, or a list of names") for value in (None, 3)),
        ({"id_column": 3}, "id_column is 3; give the name of a column"),
        ({"id_column": ""}, "has no column '', which id_column names"),
        *(({name: "yes"}, f"{name} is 'yes'; give True or False") for name in ("resume", "within")),
        ({"protect": 5}, "protect is of type int; give a path or a list of paths"),
        *(({name: ""}, f"{name} is empty; give the path of a folder") for name in ("output", "index")),
        ({"output": None}, "output is None; give the path of a folder"),
        *(({"output": value}, "output is of type ") for value in (b"out", 3)),
        ({"passages": 13}, "passages is given without protect; give protect, the files of the test set"),
        ({"protect": "b.jsonl", "ignore_common": 2}, "ignore_common is given without passages; give passages, such as"),
        ({"protect": "b.jsonl", "passages": 65}, "passages is 65; give an integer from 1 to 64"),
        ({"protect": "b.jsonl", "passages": 13, "coverage": 2}, "coverage is 2.0; give a number above 0 and at most 1"),
        *(({name: True}, f"{name}=True is given without key; give key") for name in ("key_only", "normalize_url")),
        ({"key": "url", "across": True}, "key and across=True cannot be combined"),
        ({"key": "url", "index": "index"}, "key and index cannot be combined"),
        ({"measure": "containment", "drop_contained_only": False, "index": "i"}, "drop_contained_only=False and index"),
        ({"key": "url", "reader": "cudf"}, "reader is 'cudf', which reads no keys"),
        *(({"key": key}, f"key is {key!r}; give the name of a column") for key in ("", ["url"])),
        ({"keep": "source:z"}, "'z' matches none of the INPUTs"),
        ({"keep": "source:a.jsonl,a.jsonl"}, "'a.jsonl' matches an INPUT listed before"),
        *(({"compression": value}, "give one of none, snappy, gzip") for value in ("zip", 9)),
        *(({"compression": f"zstd:{level}"}, "give a level of 1 to 19") for level in ("", 20, -1)),
        ({"compression": "snappy:1"}, "snappy has no levels"),
        ({"compression": "lz4:2"}, "give a level of 1, 3 to 12"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_before_the_work(options: dict[str, Any], message: str, folder: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        write_rows(name, [{"text": "one", "url": "a"}])
    with pytest.raises((ParameterError, InputError)) as raised:
        deduplicate_files(**{"inputs": "a.jsonl", "output": "out", "backend": "reference", **options})
    assert message in f"{raised.value}\n{raised.value.message}" and below(folder) == {"a.jsonl", "b.jsonl"}
