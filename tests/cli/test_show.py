"""`gpulsh show`: which dropped documents it prints, and how it marks what differs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from gpulsh.cli import main

WORDS = [f"w{number}" for number in range(30)]
TEXTS = [
    *(" ".join(WORDS), " ".join([*WORDS, "\x1b[2Jend"]), "Some copy", "some copy!", " ".join(["start", *WORDS[1:]])),
    *("unlike all others", "some COPY"),
]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.chdir(tmp_path)
    rows = (json.dumps({"text": text, "n": row}) for row, text in enumerate(TEXTS))
    Path("a.jsonl").write_text("\n".join(rows))
    assert main(["dedup", "a.jsonl", "-o", "out", "--backend", "reference", "--id-column", "n"]) == 0
    capsys.readouterr()
    return "out"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["show", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def rows(lines: list[str]) -> list[int]:
    return [int(found[1]) for line in lines if (found := re.match(r"dropped  a\.jsonl, row (\d+)", line))]


def test_documents_next_to_the_kept_ones(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, out)
    assert lines[0] == "Showing 1 of 4 dropped documents." and rows(lines) == [1]  # one of each cluster, copies aside
    lines = shown(capsys, out, "--id", "4")
    at = lines.index("Jaccard 0.9259, cluster 0 (a.jsonl, row 0)")
    assert lines[at + 1 : at + 5] == [
        "dropped  a.jsonl, row 4, id 4",
        f"  [-start-] {' '.join(WORDS[1:])}",
        "kept     a.jsonl, row 0, id 0",
        f"  {{+w0+}} {' '.join(WORDS[1:])}",
    ]


def test_chosen_documents(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rows(shown(capsys, out, "--near-threshold")) == [4, 1, 3, 6]
    assert rows(shown(capsys, out, "--near-threshold", "--limit", "2")) == [4, 1]
    lines = shown(capsys, out, "--cluster", "2", "--limit", "1")
    assert lines[0] == "Showing 1 of 2 matching of 4 dropped documents." and rows(lines) == [3]
    assert rows(shown(capsys, out, "--id", "0")) == [1, 4]
    assert rows(shown(capsys, out, "--id", "6", "--cluster", "2")) == [6]
    for arguments, message in (
        (["--id", "x"], "id is 'x'; give the id"),
        (["--cluster", "1"], "cluster is 1, and it has no"),
    ):
        assert main(["show", out, *arguments]) == 2
        assert message in capsys.readouterr().err


def test_in_a_terminal_colours_mark_and_nothing_else_passes(
    out: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "300")  # a narrow terminal wraps lines
    (line,) = (line for line in shown(capsys, out, "--id", "1") if "end" in line)
    assert line == f"  {' '.join(WORDS)} \\u001b[\x1b[31m\x1b[9m2Jend\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("\x1b" in line for line in shown(capsys, out))


def test_texts_that_have_changed(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path("a.jsonl").open("a") as file:
        file.write("\n")
    for message in ("a.jsonl: was changed since the run", "a.jsonl: no such file or folder"):
        assert main(["show", out]) == 0
        printed = capsys.readouterr()
        assert rows(printed.out.splitlines()) == [1] and "w1" not in printed.out
        assert printed.err == f"gpulsh: no text to show: {message}\n"
        Path("a.jsonl").unlink(missing_ok=True)
    (Path(out) / "duplicates.parquet").unlink()
    assert main(["show", out]) == 1
    assert "duplicates.parquet: cannot be read" in capsys.readouterr().err


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nothing")
    (tmp_path / "long").symlink_to("x" * 300)
    for name, message in (
        ("nothing", "no such folder"),
        ("link", "no such folder"),
        ("file", "is no folder"),
        ("long", "report.json in it cannot be read: File name too long"),  # so of one that nobody may look into
        ("", "holds no report.json of a finished run"),
    ):
        for command in ("show", "report"):
            assert main([command, str(tmp_path / name)]) == 1
            assert f"{tmp_path / name}: {message}" in capsys.readouterr().err


@pytest.mark.parametrize("lost", ["sources", "protected"])
def test_a_report_of_another_version(out: str, lost: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(out) / "report.json"
    report = json.loads(path.read_text())
    assert report.pop(lost, None) or report["funnel"].pop(lost) == 0
    path.write_text(json.dumps(report))
    for command in ("show", "report"):
        assert main([command, out]) == 1
        assert "holds no report.json" in capsys.readouterr().err
    assert main(["dedup", "a.jsonl", "-o", out, "--backend", "reference", "--id-column", "n", "--resume"]) == 1
    assert "holds an earlier run's results; give another folder, or --overwrite" in capsys.readouterr().err
