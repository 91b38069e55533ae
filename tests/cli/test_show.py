"""`gpulsh show`: which dropped documents it prints, and how it marks what differs."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.files import write_rows

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


def test_documents_next_to_the_kept_ones(shown: Callable[[str], list[str]], command: Command) -> None:
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


def test_chosen_documents(shown: Callable[[str], list[str]], command: Command) -> None:
    assert rows(shown("--near-threshold")) == [4, 1, 3, 6]
    assert rows(shown("--near-threshold --limit 2")) == [4, 1]
    lines = shown("--cluster 2 --limit 1")
    assert lines[0] == "Showing 1 of 2 matching of 4 dropped documents." and rows(lines) == [3]
    assert rows(shown("--id 0")) == [1, 4]
    assert rows(shown("--id 6 --cluster 2")) == [6]
    assert command("show out --id x").error.startswith("--id is 'x'; give the id")
    assert command("show out --cluster 1").error.startswith("--cluster is 1, and it has no")


def test_in_a_terminal_colours_mark_and_nothing_else_passes(
    shown: Callable[[str], list[str]], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "300")  # a narrow terminal wraps lines
    (line,) = (line for line in shown("--id 1") if "end" in line)
    assert line == f"  {' '.join(WORDS)} \\u001b[\x1b[31m\x1b[9m2Jend\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("\x1b" in line for line in shown(""))


def test_texts_that_have_changed(shown: Callable[[str], list[str]], command: Command) -> None:
    with Path("a.jsonl").open("a") as file:
        file.write("\n")
    for message in ("a.jsonl: was changed since the run", "a.jsonl: no such file or folder"):
        printed = command("show out")
        assert rows(printed.out.splitlines()) == [1] and "w1" not in printed.out
        assert printed.err == f"gpulsh: no text to show: {message}\n"
        Path("a.jsonl").unlink(missing_ok=True)
    Path("out/duplicates.parquet").unlink()
    assert "duplicates.parquet: cannot be read" in command("show out").error


def test_a_folder_that_is_not_there(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nothing")
    (tmp_path / "long").symlink_to("x" * 300)
    for name, message in (
        ("nothing", "no such folder"),
        ("link", "no such folder"),
        ("file", "is not a folder"),
        ("long", "report.json in it cannot be read: File name too long"),  # so of one that nobody may look into
        ("", "holds no report.json of a finished run"),
    ):
        for verb in ("show", "report"):
            assert f"{tmp_path / name}: {message}" in command(verb, str(tmp_path / name)).error


@pytest.mark.parametrize("lost", ["sources", "protected"])
def test_a_report_of_another_version(out: str, lost: str, command: Command) -> None:
    path = Path(out) / "report.json"
    report = json.loads(path.read_text())
    assert report.pop(lost, None) or report["funnel"].pop(lost) == 0
    path.write_text(json.dumps(report))
    for verb in ("show", "report"):
        assert "holds no report.json" in command(f"{verb} out").error
    error = command(DEDUP, "--resume").error
    assert "holds an earlier run's results; give another folder, or --overwrite" in error
