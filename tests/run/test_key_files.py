"""`--key` over files: the same keys in each format, a clear line for what cannot be a key, and runs that go on."""

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.__main__ import main
from gpulsh.budget import Cut
from gpulsh.errors import BackendError, GpulshError, InputError, ParameterError
from gpulsh.report.reproduce import command, in_words
from gpulsh.report.summary import funnel_table, summary
from tests.crash.test_resume import results
from tests.io.formats.test_warc import page, record, words
from tests.run.test_partitioned import MEMORY, cut_as
from tests.support.files import write_rows
from tests.support.runs import evidence, interrupting, run

Keys = list[Any]


def texts(count: int) -> list[str]:
    return [f"page {number} of some words" for number in range(count)]


def as_table(keys: Keys, kind: Any = None) -> pa.Table:
    return pa.table({"text": texts(len(keys)), "url": pa.array(keys, kind)})


def write(form: str, folder: Path, keys: Keys) -> Path:
    if form in ("csv", "jsonl"):
        rows: Any = [{"text": text, "url": key} for text, key in zip(texts(len(keys)), keys, strict=True)]
    else:
        rows = as_table(keys)
        if form == "arrow" and pa.types.is_string(rows["url"].type):
            rows = rows.set_column(1, "url", rows["url"].dictionary_encode())
    return Path(write_rows(folder / f"a.{form}", rows, 3))


FORMATS = ["csv", "jsonl", "parquet", "arrow"]
STRINGS = [
    *("http://a/1", "b", None, "http://a/1", None, "", "b", ""),
    *("x\0y", "x\0z", "日本", "e\u0301", "\u00e9", "日本"),
]
SAME = [(3, 0), (6, 1), (13, 10)]
NUMBERS = [7, -7, None, 70, 7, 2**63 - 1, None, 2**63 - 1]


@pytest.mark.parametrize(("form", "only"), [*((form, True) for form in FORMATS), ("jsonl", False)])
def test_each_format(form: str, only: bool, tmp_path: Path) -> None:
    for name, keys, same in (("s", STRINGS, SAME), ("n", NUMBERS, [(4, 0), (7, 5)])):
        run(write(form, tmp_path / name, keys), tmp_path / f"{name}out", key="url", key_only=only)
        rows = evidence(tmp_path / f"{name}out")
        assert [(row["row"], row["duplicate_of_row"]) for row in rows] == same
        assert {row["reason"] for row in rows} == {"key"}
        assert all(row["similarity"] != row["similarity"] for row in rows)


def test_formats_and_types_compare(tmp_path: Path) -> None:
    """An integer is its digits, and bytes are those of text."""
    inputs = [
        write("csv", tmp_path, ["7", "b"]),
        write("jsonl", tmp_path, [7, "b"]),
        write("parquet", tmp_path, [b"7", b"b"]),
    ]
    pq.write_table(as_table([7, 8], pa.uint8()), tmp_path / "b.parquet")
    feather.write_feather(as_table(["8", "b"], pa.large_string()), tmp_path / "b.arrow")
    inputs += [tmp_path / "b.parquet", tmp_path / "b.arrow"]
    run(inputs, tmp_path / "out", key="url", key_only=True)
    assert [(row["file"][-9:], row["row"]) for row in evidence(tmp_path / "out")] == [
        *((str(path)[-9:], row) for path in inputs[1:3] for row in (0, 1)),
        *((str(inputs[3])[-9:], 0), (str(inputs[4])[-9:], 0), (str(inputs[4])[-9:], 1)),
    ]


def test_digests_and_identifiers(tmp_path: Path) -> None:
    """Bytes of a fixed length, which may be a UUID, and a field of objects."""
    ids = [uuid.UUID(int=number).bytes for number in (5, 6, 5)]
    pq.write_table(as_table(ids, pa.binary(16)), tmp_path / "a.parquet")
    nested = pa.table({"text": texts(3), "meta": [{"id": "a"}, None, {"id": "a"}]})
    pq.write_table(nested, tmp_path / "b.parquet")
    for path, key in ((tmp_path / "a.parquet", "url"), (tmp_path / "b.parquet", "meta.id")):
        run(path, tmp_path / f"{key}out", key=key)
        assert [(row["row"], row["duplicate_of_row"]) for row in evidence(tmp_path / f"{key}out")] == [(2, 0)]


@pytest.mark.parametrize(
    ("form", "keys", "told"),
    [
        ("jsonl", ["a", None, 1.5], "line 3: 'url' is a number; key takes a string, an integer or null"),
        ("jsonl", [True, "a"], "line 1: 'url' is a boolean"),
        ("jsonl", ["a", {"b": 1}], "line 2: 'url' is an object"),
        ("parquet", [1.5, 2.5], "column 'url' is double; key takes text, bytes or integers"),
        ("arrow", [[1], [2]], "column 'url' is list<item: int64>; key takes"),
    ],
)
def test_what_is_no_key_is_named(form: str, keys: Keys, told: str, tmp_path: Path) -> None:
    path = write(form, tmp_path, keys)
    with pytest.raises(InputError) as raised:
        run(path, tmp_path / "out", key="url")
    assert told in str(raised.value) and str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_missing_column(tmp_path: Path) -> None:
    for form in FORMATS:
        with pytest.raises(InputError, match=r"has no column 'uri'.*did you mean 'url'\?"):
            run(write(form, tmp_path, ["a"]), tmp_path / "out", key="uri")
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(InputError, match="is plain text and has no column 'uri'"):
        run(tmp_path / "a.txt", tmp_path / "out", key="uri")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"key_only": True}, "key_only is given without a key; give key"),
        ({"normalize_url": True}, "normalize_url is given without a key; give key"),
        ({"key": "url", "across": True}, "key and across cannot be combined"),
        ({"key": "url", "index": "index"}, "key cannot be combined with an index"),
        ({"key": "url", "reader": "cudf"}, "reader is 'cudf', which reads no keys"),
        ({"key": ""}, "key is ''; give the name of a column"),
        ({"key": ["url"]}, r"key is \['url'\]; give the name of a column"),
    ],
)
def test_what_a_key_cannot_combine_with(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=told):
        run(write("jsonl", tmp_path, ["a"]), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("url", "key is of type str; give a column or a list"),
        (["a"], "key has 1 values, and there are 2 documents"),
        ([1.5, 2], "key is a column of double; give text, bytes or integers"),
        (["a", 1.5], r"key\[1\] is 1.5; give text, bytes or integers"),
        ([True, "a"], r"key\[0\] is True"),
    ],
)
def test_what_is_no_key_in_memory(key: Any, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        gpulsh.deduplicate(["a", "b"], key=key, backend="reference")


def test_any_column_is_a_key_in_memory() -> None:
    import numpy as np
    import pandas as pd
    import polars as pl

    keys = ["a", None, "a"]
    columns: list[Any] = [keys, np.array(keys, object), pa.array(keys), pa.chunked_array([keys[:1], keys[1:]])]
    columns += [pd.Series(keys), pl.Series(keys), pd.Series(keys, dtype="category"), pa.array([b"a", None, b"a"])]
    columns += [np.array([1, 2, 1]), [2**70, None, 2**70], ["\ud800", None, "\ud800"], [b"a", None, "a"]]
    columns += [pd.Series(["a", float("nan"), "a"]), np.array(["a", "", "a"])]
    for key in columns:
        found = gpulsh.deduplicate(["x", "y", "z"], key=key, backend="reference")
        assert found.duplicate_of.tolist() == [0, 1, 0], key
    assert gpulsh.deduplicate([], key=[], backend="reference").keep.tolist() == []


def test_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "w3lib.url", None)
    told = r'normalize_url needs w3lib .*pip install "gpulsh\[url\]"'
    with pytest.raises(BackendError, match=told):
        run(write("jsonl", tmp_path, ["a"]), tmp_path / "out", key="url", normalize_url=True)
    with pytest.raises(BackendError, match=told):
        gpulsh.deduplicate(["a"], key=["a"], normalize_url=True)


def test_the_newest_of_each_url_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command, as Llama 3 keeps the newest version of each page."""
    rows = [("http://A.org/x#top", "2023-01-01"), ("http://a.org/x", "2024-01-01"), ("http://a.org/y", None)]
    write_rows(tmp_path / "a.jsonl", [{"text": f"page {url} {date}", "url": url, "date": date} for url, date in rows])
    asked = ["--key", "url", "--normalize-url", "--key-only", "--keep", "date", "--backend", "reference"]
    assert main(["dedup", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out"), *asked]) == 0
    told = capsys.readouterr().out
    assert "dropped 1 (33.3 %): 1 copy by key." in told and "Keys in 'url' were compared, and no texts." in told
    assert [json.loads(line)["date"] for line in (tmp_path / "out/data/a.jsonl").open()] == ["2024-01-01", None]
    assert [(row["row"], row["duplicate_of_row"]) for row in evidence(tmp_path / "out")] == [(0, 1)]
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert "--key url --normalize-url --key-only" in str(command(report)).replace("--keep date ", "")
    assert list(in_words(report["parameters"]))[:2] == [
        "Documents with the same URL in url are copies.",
        "No texts are compared.",
    ]
    assert "= 1 copies by key" in funnel_table(report) and "copy by key" in summary(report, "out", earlier=False)


def test_bad_records_have_no_key(tmp_path: Path) -> None:
    records = [("a b c", "u"), (5, "u"), ("d e f", "u"), ("g", 1.5)]
    write_rows(tmp_path / "a.jsonl", [{"text": text, "url": url} for text, url in records])
    (tmp_path / "b.csv").write_text("text,url\na,v\nb,v,v\nc,v\n")
    for only in (False, True):
        out = tmp_path / f"out{only}"
        report = run([tmp_path / "a.jsonl", tmp_path / "b.csv"], out, key="url", key_only=only, on_error="skip").report
        rows = evidence(out)
        assert [(row["row"], row["duplicate_of_row"]) for row in rows] == [(2, 0), (2, 0)]
        funnel = report["funnel"]
        assert (funnel["documents"], funnel["rejected"], funnel["kept"], funnel["empty"]) == (4, 3, 2, 0)


def test_web_archives(tmp_path: Path) -> None:
    """The key is a header in any case; a page that cannot be read has none."""
    urls = ["http://a.org/1", "http://a.org/2", "http://a.org/1", "HTTP://A.org/1#x", "http://a.org/2"]
    records = [
        record("conversion", f"n{row}", words(row).encode(), WARC_Target_URI=url, WARC_Date=f"2024-01-0{row + 1}")
        for row, url in enumerate(urls)
    ]
    (tmp_path / "a.wet").write_bytes(b"".join([*records, record("conversion", "none", words(9).encode())]))
    asked = {"key": "warc-target-uri", "normalize_url": True, "keep": "WARC-Date"}
    for only in (False, True):
        run(tmp_path / "a.wet", tmp_path / f"{only}", **asked, key_only=only)
        rows = evidence(tmp_path / f"{only}")
        assert [(row["row"], row["duplicate_of_row"]) for row in rows] == [(0, 3), (1, 4), (2, 3)]
    pytest.importorskip("fastwarc")
    bad = [page("p0", b"\x1f\x8b no gzip", headers=("Content-Encoding: gzip",), WARC_Target_URI="u"), *records[:1]]
    bad += [page(f"p{row}", b"<p>words " + bytes([65 + row]), WARC_Target_URI="u") for row in (1, 2)]
    (tmp_path / "b.warc").write_bytes(b"".join(bad))
    run(tmp_path / "b.warc", tmp_path / "b", key="WARC-Target-URI", on_error="skip")
    assert [(row["row"], row["duplicate_of_row"]) for row in evidence(tmp_path / "b")] == [(3, 2)]


@pytest.mark.parametrize("column", [0, 1])
def test_damaged_row_groups_have_no_key(tmp_path: Path, column: int) -> None:
    path = write("parquet", tmp_path, ["a", "b", "a", "a", "b", "c", "b", "c", "c"])
    content = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(column)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(bytes(content))
    for only in (False, True):
        funnel = run(path, tmp_path / f"{only}", key="url", key_only=only, on_error="skip").funnel
        rows = evidence(tmp_path / f"{only}")
        assert [(row["row"], row["duplicate_of_row"]) for row in rows] == [(2, 0), (6, 1), (8, 7)]
        assert (funnel["documents"], funnel["kept"], funnel["rejected"], funnel["empty"]) == (6, 3, 3, 0)


def test_a_null_text_has_a_key(tmp_path: Path) -> None:
    """Keys decide alone; the longest text is one way to keep one that has words."""
    lines = ['{"text": null, "url": "u"}\n', '{"text": "words", "url": "u"}\n']
    (tmp_path / "a.jsonl").write_text("".join(lines))
    for keep, kept in (("first", 0), ("longest", 1)):
        for only in (False, True):
            out = tmp_path / f"{keep}{only}"
            run(tmp_path / "a.jsonl", out, key="url", key_only=only, keep=keep)
            assert (out / "data/a.jsonl").read_text() == lines[kept]


def test_texts_are_not_read_for_keys_alone(tmp_path: Path) -> None:
    """Nor are the empty ones, which stand for them, written."""
    table = as_table(["a", "b", "a", None])
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    report = run(tmp_path / "a.parquet", tmp_path / "out", key="url", key_only=True).report
    assert pq.read_table(tmp_path / "out/data/a.parquet").equals(table.take([0, 1, 3]))
    assert (report["funnel"]["bytes"], report["funnel"]["nulls"], report["funnel"]["empty"]) == (0, 0, 0)


SMALL = Cut(memory=MEMORY, partition=500, digests=200, group=300)


@pytest.mark.parametrize(("stage", "only"), [("keys", True), ("keys", False), ("verify", False), ("collect", True)])
def test_a_run_goes_on(tmp_path: Path, stage: str, only: bool) -> None:
    keys = [f"{number % 17}" for number in range(40)]
    options: dict[str, Any] = {"key": "url", "key_only": only, "keep": "longest", "id_column": "url"}
    path = write("jsonl", tmp_path, keys)
    run(path, tmp_path / "whole", **options)

    with cut_as(SMALL):
        with interrupting(stage):
            run(path, tmp_path / "out", **options)
        for other in ({"key": None, "key_only": False}, {"key_only": not only}):
            with pytest.raises(GpulshError):
                run(path, tmp_path / "out", **{**options, **other}, resume=True)
        result = run(path, tmp_path / "out", **options, resume=True)
    assert results(tmp_path / "out") == results(tmp_path / "whole")
    assert "sign" in result.funnel["resumed"] and result.funnel["key_copies"] == 23
