"""`gpulsh passages` and `gpulsh cut`: what they print and write."""

import json
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.files import read_rows, write_rows
from tests.support.html import Html
from tests.support.texts import licences

ON = "--backend reference"


@pytest.fixture(autouse=True)
def corpus(folder: Path) -> None:
    known = [text[:2000] for text in licences()[:12]]
    texts = [*known, *known[3:5], "<script>alert(1)</script> " * 30]
    write_rows("a.jsonl", [{"text": text, "id": n} for n, text in enumerate(texts)])


def test_list_and_cut(command: Command) -> None:
    status, out, err = command(f"passages a.jsonl -o marks --tokens 10 --id-column id {ON}")
    lines = out.splitlines()
    assert status == 0 and lines[0].startswith("Found ") and " of 15 documents: " in lines[0]
    assert lines[1].startswith("Results are in marks, after ")
    assert all(line.startswith("gpulsh: ") for line in err.splitlines()) and "gpulsh: sample: " in err
    rows = read_rows("marks/passages.parquet")
    assert {row["id"] for row in rows} >= {12, 13}
    report = json.loads(Path("marks/report.json").read_text())
    assert report["passages"]["passages"] == len(rows)
    assert report["passages"]["bytes_marked"] == sum(row["stop"] - row["start"] for row in rows)
    assert sum(entry["distinct"] + entry["before"] for entry in report["windows"]) == report["passages"]["windows"]
    assert sum(entry["after"] for entry in report["windows"]) < sum(entry["before"] for entry in report["windows"])

    status, out, _ = command(f"cut a.jsonl --passages marks/passages.parquet -o cut {ON}")
    assert status == 0 and out.splitlines()[0].startswith(f"Cut {len(rows):,} passages of ")
    again = command(f"passages a.jsonl -o both --tokens 10 --id-column id --cut --json {ON}")
    assert again.status == 0 and json.loads(again.out)["passages"]["cut_passages"] == len(rows)
    assert Path("both/data/a.jsonl").read_bytes() == Path("cut/data/a.jsonl").read_bytes()


def test_files_without_text(command: Command) -> None:
    Path("b.jsonl").write_text('{"text": null}\n')
    status, out, _ = command(f"passages b.jsonl -o marks {ON}")
    assert (status, out.splitlines()[0]) == (0, "Found 0 passages in 0 of 1 document.")


def test_the_page_shows_frequent_passages_as_text(command: Command) -> None:
    assert command(f"passages a.jsonl -o marks --tokens 10 {ON}").status == 0
    page = Html(Path("marks/report.html").read_text())
    report = json.loads(Path("marks/report.json").read_text())
    assert "script" not in {tag for tag, _ in page.tags}
    assert "alert(1)" in page.inside and "alert(1)" not in page.outside
    rows = read_rows("a.jsonl")
    for one in report["frequent"]:
        text = rows[one["row"]]["text"].encode()[one["start"] : one["stop"]]
        assert text[:400].decode("utf-8", "replace") == one["text"]
        assert f"{one['occurrences']:,} times" in page.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("passages a.jsonl -o out --tokens 0", "tokens is 0"),
        ("passages a.jsonl -o out --bridge 60", "bridge is 60"),
        ("passages a.jsonl -o out --within host", "give it with unit 'line' or 'paragraph'"),
        ("passages a.jsonl -o s3://bucket/out", "is a URL"),
        ("passages a.jsonl -o out --text-column body", "has no column 'body'"),
        ("passages missing.jsonl -o out", "missing.jsonl: "),
        ("cut a.jsonl --passages a.jsonl -o out", "give OUT/passages.parquet of a run of `gpulsh passages`"),
        ("cut a.jsonl --passages none.parquet -o out", "none.parquet: no such file; give OUT/"),
    ],
)
def test_wrong_use_is_one_plain_line(command: Command, line: str, message: str) -> None:
    assert message in command(f"{line} {ON}").error
    assert not Path("out").exists()


def test_results_of_passages_are_no_run_of_dedup(command: Command) -> None:
    assert command(f"passages a.jsonl -o marks --tokens 10 {ON}").status == 0
    assert "give the OUT of `gpulsh dedup`" in command("show marks").error
    assert "holds an earlier run's results" in command(f"passages a.jsonl -o marks --tokens 9 {ON}").error
    assert command(f"passages a.jsonl -o marks --tokens 9 --overwrite {ON}").status == 0
