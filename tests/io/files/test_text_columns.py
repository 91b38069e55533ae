"""`--text-column`: fields of objects and structs, several columns joined, and column names that look like either."""

from pathlib import Path
from typing import Any

import pytest

from gpulsh.errors import InputError, ParameterError
from gpulsh.io.formats import json_record as record
from gpulsh.io.limits import Limit
from tests.support.command import Command
from tests.support.files import read_rows, texts_of, write_rows
from tests.support.runs import evidence, run

ROWS: list[dict[str, Any]] = [
    {"title": "One", "meta": {"body": "two three", "n": 1}, "a.b": "x", "c,d": "y"},
    {"title": None, "meta": {"body": "four", "n": None}, "a.b": None, "c,d": "z"},
    {"title": "five", "meta": None, "a.b": "", "c,d": None},
    {"title": None, "meta": {"body": None, "n": 2}, "a.b": "u", "c,d": "v"},
]
TEXTS: dict[str, list[bytes | None]] = {
    "meta.body": [b"two three", b"four", None, None],
    "title,meta.body": [b"One\ntwo three", b"four", b"five", None],
    "column:a.b": [b"x", None, b"", b"u"],
    "column:c,d": [b"y", b"z", None, b"v"],
}
KINDS = ["jsonl", "parquet", "arrows"]


@pytest.mark.parametrize("column", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_text_columns_are_read_in_each_format(kind: str, column: str, tmp_path: Path) -> None:
    path = Path(write_rows(tmp_path / f"a.{kind}", ROWS, 3))
    assert texts_of(path, column) == [text or b"" for text in TEXTS[column]]
    result = run(path, tmp_path / "out", text_column=column)
    assert result.funnel["nulls"] == TEXTS[column].count(None)
    assert result.report["parameters"]["text_column"] == column
    if kind == "parquet":
        assert read_rows(tmp_path / "out/data/a.parquet") == ROWS


def test_text_columns_are_read_from_large_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LARGE_LINE", 10)
    write_rows(tmp_path / "a.jsonl", ROWS)
    for column in TEXTS:
        assert texts_of(tmp_path / "a.jsonl", column, limit=Limit(1 << 29)) == [text or b"" for text in TEXTS[column]]


def test_csv_columns_may_contain_dots_and_commas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('title,meta.body,"c,d"\nOne,two,x\n,three,\n,,\n')
    assert texts_of(tmp_path / "a.csv", "title,meta.body") == [b"One\ntwo", b"three", b""]
    assert texts_of(tmp_path / "a.csv", "column:c,d") == [b"x", b"", b""]


@pytest.mark.parametrize("kind", KINDS)
def test_missing_text_columns_are_named(kind: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / f"a.{kind}", ROWS)
    cases: list[tuple[str, type[Exception], str]] = [
        ("meta.text", InputError, r"has no column 'meta\.text'; its columns are: "),
        ("title,body", InputError, "has no column 'body'; its columns are: "),
        ("a.b", InputError, r"has no column 'a\.b'.*; give column:a\.b for the one of that name$"),
        ("meta.n", InputError, r"'meta\.n' is "),
        ("meta", InputError, "'meta' is "),
        *((wrong, ParameterError, "and a part of it is empty; give NAME") for wrong in ("title,", ".title", "a..b")),
    ]
    if kind != "jsonl":  # a field of a column without fields
        message = r"has no column 'title\.body'; its columns are: title, meta, a\.b, c,d; name"
        cases.append(("title.body", InputError, message))
    for column, error, message in cases:
        with pytest.raises(error, match=message):
            run(path, tmp_path / "out", text_column=column)
    assert not (tmp_path / "out").exists()


def test_a_string_in_place_of_an_object_is_a_bad_record(tmp_path: Path, command: Command) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"meta": {"body": "x"}}, {"meta": "x"}])
    line = f"dedup {path} -o {tmp_path}/out --backend reference --text-column meta.body"
    assert "a.jsonl: line 2: 'meta' is a string; give an object or null" in command(line).error
    assert command(f"{line} --on-error skip").status == 0


@pytest.mark.parametrize(("kind", "large"), [("jsonl", False), ("jsonl", True), ("parquet", False), ("arrows", False)])
def test_ids_and_keys_may_be_fields(kind: str, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LARGE_LINE", 10 if large else 1 << 20)
    rows: list[dict[str, Any]] = [
        {"text": "the same", "of": {"n": n, "id": f"number {n}"}, "x.n": -n} for n in (1, 3, 2)
    ]
    path = write_rows(tmp_path / f"a.{kind}", [*rows, {"text": "the same", "of": None, "x.n": None}])

    def ids(**options: str) -> list[Any]:
        run(path, tmp_path / "out", overwrite=True, **options)
        return [(row["id"], row["duplicate_of_id"]) for row in evidence(tmp_path / "out")]

    kept = [("number 1", "number 3"), ("number 2", "number 3"), (None, "number 3")]
    assert ids(id_column="of.id", keep="of.n") == kept
    assert ids(id_column="x.n", keep="column:x.n") == [(-3, -1), (-2, -1), (None, -1)]  # a column of that name
    with pytest.raises(InputError, match=r"has no column 'of\.none'"):
        ids(id_column="of.none")
    with pytest.raises(InputError, match=r"has no column 'no\.n', which keep names"):
        ids(keep="no.n")
