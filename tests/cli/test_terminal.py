"""No control characters from outside are printed, and no command fails because its reader is gone."""

import json
import logging
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gpulsh.report.wording import printable
from tests.support.command import Command, Printed
from tests.support.files import write_rows
from tests.support.runs import environment

CLEAR = "\x1b[2J\x1b]0;owned\x07"  # clears the screen and sets the title
ODD = f"a{CLEAR}\u202egnp\x9b31m\r\x7f\u2066\u2028\u200fz"
TEXT = "some words of a page that is there twice and then nothing else at all"
TRACES = ("\x1b", "\x07", "\x9b", "\r", "\x7f", "\u202e", "\u2066", "\u2028", "\u200f")


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.run.file_run.missing_requirement", lambda: "tested elsewhere")
    write_rows("a.jsonl", [TEXT] * 3)


def is_harmless(printed: Printed) -> bool:
    return not [trace for trace in TRACES if trace in printed.out + printed.err]


def test_printable_escapes_control_characters_alone() -> None:
    assert printable("plain, Ünïcödé, עברית, 中文, नमस्ते") == "plain, Ünïcödé, עברית, 中文, नमस्ते"
    assert printable("می\u200cخواهم 👩\u200d👧") == "می\u200cخواهم 👩\u200d👧"
    assert printable("a\x1bb\udcffc\u202ed\n") == r"a\u001bb\udcffc\u202ed\u000a"
    assert printable("\udcc3\udca9 \udcff") == r"é \udcff" and printable("\ud800\udcc3\udca9") == r"\ud800\udcc3\udca9"
    codes = (*range(0x5D, 0xD800), *range(0xE000, 0x110000, 97), *range(0xE0000, 0xE0100))
    every = "".join(map(chr, codes))
    assert json.loads(f'"{printable(every)}"') == every  # beyond quote and backslash valid in JSON


def test_column_names_are_escaped(command: Command) -> None:
    for ending in ("jsonl", "parquet", "arrow"):
        write_rows(f"b.{ending}", [{ODD: TEXT, "other": 1}])
    for ending, more in (("jsonl", ""), ("parquet", "--verbose"), ("arrow", "")):
        printed = command(f"dedup b.{ending} -o out --backend reference {more}")
        assert is_harmless(printed) and r"a\u001b[2J" in printed.error


@pytest.mark.parametrize(
    "arguments",
    [
        *(["dedup", "a.jsonl", "-o", "out", option, ODD] for option in ("--text-column", "--keep", "--shingle")),
        *(["dedup", "a.jsonl", "-o", "out", "--memory", ODD], ["dedup", "a.jsonl", "-o", "out", f"--{ODD}"]),
        *(["dedup", ODD, "-o", "out"], ["dedup", f"{ODD}.jsonl", "-o", f"{ODD}/out"], ["dedup", "bad", "-o", "out"]),
        *(["index", "query", ODD, "a.jsonl"], ["plan", "--docs", ODD, "--bytes", "1"], ["report", ODD], [ODD]),
    ],
)
def test_error_messages_are_escaped(arguments: list[str], command: Command) -> None:
    Path(f"{ODD}.jsonl").write_text("no record")
    write_rows(f"bad/{ODD}.jsonl", [{"text": ODD, ODD: 5}, 5])
    for more in ([], ["--verbose"]):
        printed = command("", *arguments, *more)
        assert is_harmless(printed) and printed.error


def test_names_of_outputs_keys_and_warnings_are_escaped(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (
        ["dedup", "a.jsonl", "-o", ODD],
        ["dedup", "a.jsonl", "-o", "b", "--index", f"known{ODD}"],
        ["index", "build", f"i{ODD}", "a.jsonl", "-o", f"{ODD}.parquet"],
        ["index", "query", f"i{ODD}", "a.jsonl", "-o", f"{ODD}.jsonl"],
        ["index", "compact", f"i{ODD}"],
    ):
        printed = command("", *arguments)
        assert printed.status == 0 and is_harmless(printed)
    write_rows("b.jsonl", [{"text": TEXT, "id": ODD + "\U000e0001"}])
    assert command("index build i b.jsonl --id-column id").status == 0
    printed = command("index query i b.jsonl --id-column id")  # whose output is still JSON
    assert is_harmless(printed) and json.loads(printed.out)["duplicate_of"] == ODD + "\U000e0001"
    monkeypatch.setattr(logging.getLogger("gpulsh"), "propagate", False)  # so that only the command listens
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("ok.jsonl", Path("a.jsonl").read_bytes())
        archive.writestr(f"../{ODD}.jsonl", b"{}")
    printed = command("dedup zip://::a.zip -o out --backend reference")
    assert printed.status == 0 and is_harmless(printed)
    assert "gpulsh: zip://::a.zip: left out ../a\\u001b[2J" in printed.err


def shell(command: str, redirected: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell with redirections; returns the command's own exit status."""
    variables = {**environment(), "PYTHONUNBUFFERED": ""}
    line = f"{sys.executable} -m gpulsh {command} {redirected}\nexit ${{PIPESTATUS[0]}}"
    return subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True, env=variables)


FULL = "standard output cannot be written: No space left on device"


@pytest.mark.parametrize(
    ("redirected", "errors"),
    [
        ("<&- >&- 2>&-", []),
        ("--json 2>&1 | true", []),
        ("2> /dev/full", []),
        ("> /dev/full", [f"gpulsh: error: all is done, but {FULL}"]),
    ],
)
def test_a_closed_stdout_does_not_undo_a_finished_run(redirected: str, errors: list[str]) -> None:
    done = shell("dedup a.jsonl -o out --backend reference", redirected)
    assert done.returncode == len(errors)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert [line for line in done.stderr.splitlines() if "error" in line] == errors
    assert Path("out/data/a.jsonl").read_text().count("\n") == 1 and not Path("out/_work").exists()
    assert pq.read_table("out/duplicates.parquet").num_rows == 2
    assert json.loads(Path("out/report.json").read_text())["funnel"]["dropped"] == 2


@pytest.mark.parametrize(
    ("command", "redirected", "status", "message"),
    [
        *(("curve", "> /dev/full", 1, f"gpulsh: error: {FULL}\n"), ("curve", ">&-", 0, ""), ("curve", "| true", 0, "")),
        ("dedup --help-all", "> /dev/full", 1, f"gpulsh: error: {FULL}\n"),  # click prints it
        *(("", "2> /dev/full", 2, ""), ("dedup none.jsonl -o out --backend cpu", "2>&-", 1, "")),
    ],
)
def test_failed_output_sets_the_exit_status(command: str, redirected: str, status: int, message: str) -> None:
    done = shell(command, redirected)
    assert done.stderr == message and (done.returncode == status or redirected == "| true")


def test_a_run_continues_after_its_terminal_closes() -> None:
    """The terminal shows bars, then closes in the middle of the run."""
    import pty

    leader, follower = pty.openpty()
    code = """
import sys
from gpulsh.run import driver
copies = driver.find_exact_copies
def waiting(*arguments):
    sys.stdin.readline()
    return copies(*arguments)
driver.find_exact_copies = waiting
from gpulsh.cli import main
sys.exit(main(["dedup", "a.jsonl", "-o", "out", "--backend", "reference"]))
"""
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": follower, "stderr": follower, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code], **streams, env={**os.environ, "TERM": "xterm"})
    os.close(follower)
    shown = b""
    while b"/s" not in shown:
        shown += os.read(leader, 100)
    os.close(leader)
    process.communicate("\n", timeout=60)
    assert b"\x1b[" in shown and b"sign" in shown and b"gpulsh: sign" not in shown
    assert process.returncode == 0 and Path("out/report.json").exists()


@pytest.fixture
def at_columns(command: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], str]:
    monkeypatch.setenv("NO_COLOR", "1")

    def run(width: int, line: str) -> str:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        return command(line).out

    return run


@pytest.mark.parametrize("line", ["dedup --help", "dedup --help-all", "passages --help", "index query --help"])
def test_help_breaks_no_word_in_a_narrow_terminal(line: str, at_columns: Callable[[int, str], str]) -> None:
    """A long example continues after a backslash, so that it can still be pasted."""
    wide, narrow = (at_columns(width, line) for width in (110, 45))
    assert max(map(len, narrow.splitlines())) <= 45
    found = [text.replace(" \\\n", " ").partition("Examples:")[2] for text in (wide, narrow)]
    whole, pasted = ([shlex.split(row) for row in re.findall("^  gpulsh .*", text, re.MULTILINE)] for text in found)
    assert whole == pasted
    whole, narrow = (re.sub(r"Examples:\n(  .*\n)*", "", text + "\n") for text in (wide, narrow))
    assert "".join(narrow.split()) == "".join(whole.split())
    words = {word for word in whole.split() if len(word) <= 24 and "-" not in word}  # a hyphen may end a line
    assert words <= {*narrow.split()}


def test_show_breaks_no_word_in_a_narrow_terminal(command: Command, at_columns: Callable[[int, str], str]) -> None:
    assert command("dedup a.jsonl -o out --backend reference").status == 0
    narrow = at_columns(45, "show out")
    assert max(map(len, narrow.splitlines())) <= 45 and narrow.split() == at_columns(1000, "show out").split()
