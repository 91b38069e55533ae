"""Shares by a column: read again from INPUT, they are those of counting by hand."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.cli import main
from gpulsh.errors import InputError, ParameterError
from gpulsh.report import originals
from gpulsh.run.files import FilesResult, deduplicate_files
from tests.support.files import write_rows

WORDS = "every one of these words is in all of them"


@pytest.fixture
def result(folder: Path) -> FilesResult:
    """Of rows 0 to 5 the copies 1, 3 and 5 are dropped, of the second file row 0; one line is none."""
    texts = ["a text of its own", WORDS, "another one", WORDS, "and a third", WORDS]
    rows = {"lang": ["en", "de", None, "en", "en", "de"], "year": [1, 2, 2, 2, 3, 3], "text": texts}
    pq.write_table(pa.table({**rows, "of": [[1]] * 6}), "a.parquet", row_group_size=4)
    lines = [{"text": WORDS, "lang": "fr", "year": 3}, {"text": "the last one", "lang": "en", "year": "x"}]
    Path("b.jsonl").write_text("\n".join([json.dumps(lines[0]), "{broken", json.dumps(lines[1])]) + "\n")
    write_rows("test.jsonl", [{"text": WORDS, "lang": "xx"}])
    inputs: Any = ["a.parquet", "b.jsonl"]
    return deduplicate_files(inputs, "out", protect="test.jsonl", on_error="skip", backend="reference")


def test_documents_and_dropped_ones_of_each_value(result: FilesResult) -> None:
    rows = [tuple(row.values()) for row in result.shares("lang").to_pylist()]
    assert rows == [("en", 4, 1), ("de", 2, 2), (None, 1, 0), ("fr", 1, 1)]
    years = result.shares("year")
    assert years.schema == pa.schema([("value", pa.string()), ("documents", pa.int64()), ("dropped", pa.int64())])
    assert years["value"].to_pylist() == ["2", "3", "1", "x"] and years["dropped"].to_pylist() == [2, 2, 0, 0]


def test_the_page_has_them_after_report_by(
    result: FilesResult, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.setattr(originals, "LISTED", 1)
    page = Path("out/report.html")
    assert "Dropped documents by <bdi>" not in page.read_text()
    assert main(["report", "out", "--by", "lang", "--by", "year"]) == 0
    (lang, year) = json.loads(Path("out/report.json").read_text())["shares"]
    assert lang["column"] == "lang" and lang["values"] == [{"value": "en", "documents": 4, "dropped": 1}]
    assert lang["more"] == {"values": 3, "documents": 4, "dropped": 3} and year["values"][0]["value"] == "2"
    html = page.read_text()
    assert "Dropped documents by <bdi>lang</bdi>" in html and "<td><td" not in html and "75 %" in html
    assert main(["report", "out", "--by", "year"]) == 0 and page.read_text().count("Dropped documents by <bdi>") == 2
    assert main(["report", "out", "--by", "none"]) == 1
    assert "a.parquet: has no column 'none'" in capsys.readouterr().err and page.read_text().count("by <bdi>") == 2


def test_what_cannot_be_counted(result: FilesResult, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"column 'of' is list<.*>; name one of texts, numbers or dates"):
        result.shares("of")
    monkeypatch.setattr(originals, "MOST", 3)
    with pytest.raises(ParameterError, match="'lang' has more than 3 values; name a column with fewer"):
        result.shares("lang")
    with Path("b.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(InputError, match=r"b\.jsonl: was changed since the run"):
        result.shares("year")


def test_a_field_that_no_line_has(result: FilesResult) -> None:
    found = deduplicate_files("b.jsonl", "lines", on_error="skip", backend="reference")
    with pytest.raises(InputError, match=r"^column 'langauge': no document has a value; name another field"):
        found.shares("langauge")
    assert found.shares("lang")["value"].to_pylist() == ["en", "fr"]
