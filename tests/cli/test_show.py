"""`gpulsh show` prints the dropped documents that were chosen and marks differences; `gpulsh passages` and `cut`."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.command import Command
from tests.support.files import read_rows, write_rows
from tests.support.html import Html
from tests.support.runs import interrupted
from tests.support.texts import licences

DEDUP = "dedup a.jsonl -o out --backend reference --id-column n"
WORDS = [f"w{number}" for number in range(30)]
TEXTS = [
    *(" ".join(WORDS), " ".join([*WORDS, "\x1b[2Jend"]), "Some copy", "some copy!", " ".join(["start", *WORDS[1:]])),
    *("unlike all others", "some COPY"),
]


@pytest.fixture
def out(folder: Path, command: Command) -> str:
    write_rows("a.jsonl", [{"text": text, "n": row} for row, text in enumerate(TEXTS)])
    assert command(DEDUP).status == 0
    return "out"


@pytest.fixture
def shown(out: str, command: Command) -> Callable[[str], list[str]]:
    return lambda options: command(f"show out {options}").out.splitlines()


def rows(lines: list[str]) -> list[int]:
    return [int(found[1]) for line in lines if (found := re.match(r"dropped  a\.jsonl, row (\d+)", line))]


def test_dropped_documents_are_shown_beside_kept_ones(shown: Callable[[str], list[str]], command: Command) -> None:
    lines = shown("")
    assert lines[0] == "Showing 1 of 4 dropped documents." and rows(lines) == [1]  # one of each cluster, copies aside
    lines = shown("--id 4")
    at = lines.index("Jaccard 0.9259, cluster 0 (a.jsonl, row 0)")
    assert lines[at + 1 : at + 5] == [
        "dropped  a.jsonl, row 4, id 4",
        f"  [-start-] {' '.join(WORDS[1:])}",
        "kept     a.jsonl, row 0, id 0",
        f"  {{+w0+}} {' '.join(WORDS[1:])}",
    ]


def test_an_estimate_is_called_one(command: Command) -> None:
    write_rows("a.jsonl", [{"text": text} for text in TEXTS])
    assert command("dedup a.jsonl -o out --verify signature").status == 0
    assert re.search(r"^estimated Jaccard 0\.\d+, cluster 0", command("show out").out, re.M)


def test_options_choose_the_documents_shown(shown: Callable[[str], list[str]], command: Command) -> None:
    assert rows(shown("--near-threshold")) == [4, 1, 3, 6]
    assert rows(shown("--near-threshold --limit 2")) == [4, 1]
    lines = shown("--cluster 2 --limit 1")
    assert lines[0] == "Showing 1 of 2 matching of 4 dropped documents." and rows(lines) == [3]
    assert rows(shown("--id 0")) == [1, 4]
    assert rows(shown("--id 6 --cluster 2")) == [6]
    assert command("show out --id x").error.startswith("--id is 'x'; give the id")
    assert command("show out --cluster 1").error.startswith("--cluster is 1, and it has no")


def test_ids_without_a_python_value_are_found_by_their_number(command: Command) -> None:
    ids = pa.array([1, 2, 1 << 62], pa.int64()).view(pa.timestamp("us"))
    write_rows("a.parquet", pa.table({"text": [TEXTS[0]] * 3, "id": ids}))
    assert command("dedup a.parquet -o out --id-column id").status == 0
    assert f"row 2, id {1 << 62}" in command(f"show out --id {1 << 62}").out
    assert "row 1, id 1970-01-01 00:00:00.000002" in command("show out --id", "1970-01-01 00:00:00.000002").out


def test_ids_that_are_bytes_are_shown_and_found_as_their_text(command: Command) -> None:
    """ClickHouse writes strings as bytes; they were shown as b'u1', and only that was found."""
    write_rows("a.parquet", pa.table({"text": [TEXTS[0]] * 3, "id": [b"u0", b"u1", b"\xff"]}))
    assert command("dedup a.parquet -o out --id-column id").status == 0
    assert "row 1, id u1\n" in command("show out --id u1").out
    assert "row 2, id \\xff\n" in command("show out --id \\xff").out


def test_colours_mark_differences_and_control_characters_are_escaped(
    shown: Callable[[str], list[str]], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "300")  # a narrow terminal wraps lines
    (line,) = (line for line in shown("--id 1") if "end" in line)
    assert line == f"  {' '.join(WORDS)} \\u001b[\x1b[31m\x1b[9m2Jend\x1b[0m"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert not any("\x1b" in line for line in shown(""))


def test_a_changed_input_is_not_shown(shown: Callable[[str], list[str]], command: Command) -> None:
    with Path("a.jsonl").open("a") as file:
        file.write("\n")
    for message in ("a.jsonl: has changed since the run", "a.jsonl: no such file or folder"):
        printed = command("show out")
        assert rows(printed.out.splitlines()) == [1] and "w1" not in printed.out
        assert printed.err == f"gpulsh: no text to show: {message}\n"
        Path("a.jsonl").unlink(missing_ok=True)
    Path("out/duplicates.parquet").unlink()
    assert "duplicates.parquet: cannot be read" in command("show out").error


def test_a_missing_input_folder_is_named(folder: Path, command: Command) -> None:
    for name in "ab":
        write_rows(f"in/{name}.jsonl", [name, name])
    command("dedup in -o out --backend reference")
    Path("in").rename("moved")
    assert command("show out").err == "gpulsh: no text to show: in: no such file or folder\n"


def test_a_wrong_output_folder_is_named(folder: Path, command: Command) -> None:
    Path("file").write_text("")
    Path("link").symlink_to("nothing")
    Path("long").symlink_to("x" * 300)
    for message in (
        *("nothing: no such folder", "link: no such folder", "file: is not a folder"),
        "long: report.json in it cannot be read: File name too long",  # so is a folder that the user may not read
        ".: holds no report.json of a finished run",
    ):
        for verb in ("show", "report"):
            assert command(f"{verb} {message.partition(':')[0]}").error.startswith(message)


@pytest.mark.parametrize("lost", ["sources", "files", "outputs", "written", "protected"])
def test_a_report_of_another_version_is_refused(out: str, lost: str, command: Command) -> None:
    """It lacks a value, as a damaged one may; some ended in an unexpected error."""
    path = Path(out) / "report.json"
    report = json.loads(path.read_text())
    assert report.pop(lost, None) or report["funnel"].pop(lost) == 0
    path.write_text(json.dumps(report))
    for verb in ("show out", "report out", "weights out -o weighted --weights log"):
        assert "holds no report.json" in command(verb).error
    error = command(DEDUP, "--resume").error
    assert "holds an earlier run's results; give another folder, or --overwrite" in error


# --- the output of `gpulsh passages` and `gpulsh cut` ---


ON = "--backend reference"


@pytest.fixture(autouse=True)
def corpus(folder: Path) -> None:
    known = [text[:2000] for text in licences()[:12]]
    texts = [*known, *known[3:5], "<script>alert(1)</script> " * 30]
    write_rows("a.jsonl", [{"text": text, "id": n} for n, text in enumerate(texts)])


def test_passages_are_listed_and_cut(command: Command) -> None:
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


def test_the_last_line_tells_what_made_the_results(command: Command) -> None:
    """A resumed run and a finished one looked like a run that did all the work in its few seconds."""
    asked = f"passages a.jsonl -o marks --tokens 10 {ON}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.passages.driver.write_list", interrupted)
        assert command(asked).status == 130
    assert command(f"{asked} --resume").out.splitlines()[-1].startswith("Results are in marks, resumed and finished ")
    report = json.loads(Path("marks/report.json").read_text())
    Path("marks/report.json").write_text(json.dumps({**report, "began": "2026-01-31T23:59:59+00:00"}))
    last = "Results are in marks, from the finished run that began at 2026-01-31T23:59:59+00:00."
    assert command(f"{asked} --resume").out.splitlines()[-1] == last


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a b c"] * 2, "--cut", "Cut 1 passage of 1 document, and dropped 1 document with too few tokens left."),
        ([None], "", "Found 0 passages in 0 of 1 document."),
    ],
)
def test_summaries_use_the_singular(texts: list[str | None], options: str, message: str, command: Command) -> None:
    write_rows("b.jsonl", texts)
    printed = command(f"passages b.jsonl -o marks --tokens 3 {options} {ON}")
    assert printed.status == 0 and message in printed.out.splitlines()
    command(f"dedup b.jsonl -o out {ON}")
    assert command("show out").out.startswith(
        "Showing 1 of 1 dropped document.\n" if texts[1:] else "Showing 0 of 0 dropped documents.\n"
    )


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
        assert f"{one['occurrences']:,} occurrences" in page.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("passages a.jsonl -o out --tokens 0", "tokens is 0"),
        ("passages a.jsonl -o out --bridge 60", "bridge is 60"),
        ("passages a.jsonl -o out --within host", "--within is given for words; give --unit 'line' or 'paragraph'"),
        ("passages a.jsonl -o s3://bucket/out", "is a URL"),
        ("passages a.jsonl -o out --text-column body", "has no column 'body'"),
        ("passages missing.jsonl -o out", "missing.jsonl: "),
        ("cut a.jsonl --passages a.jsonl -o out", "give OUT/passages.parquet of a run of `gpulsh passages`"),
        ("cut a.jsonl --passages none.parquet -o out", "none.parquet: no such file; give OUT/"),
        ("cut a.jsonl --passages . -o out", ".: is a folder; give OUT/passages.parquet"),
        ("cut a.jsonl --passages s3://b/p.parquet -o out", "s3://b/p.parquet: is a URL; copy the file to"),
    ],
)
def test_wrong_use_of_passages_and_cut_is_one_line(command: Command, line: str, message: str) -> None:
    assert message in command(f"{line} {ON}").error
    assert not Path("out").exists()


def test_show_refuses_results_of_passages(command: Command) -> None:
    assert command(f"passages a.jsonl -o marks --tokens 10 {ON}").status == 0
    assert "give the OUT of `gpulsh dedup`" in command("show marks").error
    assert "holds an earlier run's results" in command(f"passages a.jsonl -o marks --tokens 9 {ON}").error
    assert command(f"passages a.jsonl -o marks --tokens 9 --overwrite {ON}").status == 0
