"""What is printed: nothing of a stranger's that a terminal obeys; and nobody who reads it is no reason to fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.cli import main
from gpulsh.report.wording import printable

CLEAR = "\x1b[2J\x1b]0;owned\x07"  # clears the screen and sets the title
ODD = f"a{CLEAR}\u202egnp\x9b31m\r\x7f\u2066\u2028\u200fz"
TEXT = "some words of a page that is there twice and then nothing else at all"
TRACES = ("\x1b", "\x07", "\x9b", "\r", "\x7f", "\u202e", "\u2066", "\u2028", "\u200f")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpulsh.run.files.missing", lambda: "tested elsewhere")
    Path("a.jsonl").write_text("".join(json.dumps({"text": TEXT}) + "\n" for _ in range(3)))
    return tmp_path


def harmless(printed: Any) -> bool:
    return not [trace for trace in TRACES if trace in printed.out + printed.err]


def test_printable() -> None:
    assert printable("plain, Ünïcödé, עברית, 中文, नमस्ते") == "plain, Ünïcödé, עברית, 中文, नमस्ते"
    assert printable("می\u200cخواهم 👩\u200d👧") == "می\u200cخواهم 👩\u200d👧"
    assert printable("a\x1bb\udcffc\u202ed\n") == r"a\u001bb\udcffc\u202ed\u000a"
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert json.loads(f'"{printable(every[0x5D:])}"') == every[0x5D:]  # beyond quote and backslash valid in JSON


def test_names_of_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({ODD: [TEXT], "other": [1]})
    Path("b.jsonl").write_text(json.dumps({ODD: TEXT}) + "\n")
    pq.write_table(table, "b.parquet")
    with pa.OSFile("b.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
        out.write_table(table)
    for ending, more in (("jsonl", []), ("parquet", ["--verbose"]), ("arrow", [])):
        assert main(["dedup", f"b.{ending}", "-o", "out", "--backend", "reference", *more]) == 1
        printed = capsys.readouterr()
        assert harmless(printed) and r"a\u001b[2J" in printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["dedup", ODD, "-o", "out"],
        ["dedup", f"{ODD}.jsonl", "-o", f"{ODD}/out"],
        ["dedup", "a.jsonl", "-o", "out", "--text-column", ODD],
        ["dedup", "a.jsonl", "-o", "out", "--keep", ODD],
        ["dedup", "a.jsonl", "-o", "out", "--shingle", ODD],
        ["dedup", "a.jsonl", "-o", "out", "--memory", ODD],
        ["dedup", "a.jsonl", "-o", "out", f"--{ODD}"],
        ["dedup", "bad", "-o", "out"],
        ["index", "query", ODD, "a.jsonl"],
        ["plan", "--docs", ODD, "--bytes", "1"],
        ["report", ODD],
        [ODD],
    ],
)
def test_errors(here: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path(f"{ODD}.jsonl").write_text("no record")
    Path("bad").mkdir()
    Path(f"bad/{ODD}.jsonl").write_text(json.dumps({"text": ODD, ODD: 5}) + '\n{"text": 5}\n')
    for more in ([], ["--verbose"]):
        assert main([*arguments, *more]) in (1, 2)
        printed = capsys.readouterr()
        assert harmless(printed) and "gpulsh: error: " in printed.err


def test_names_of_outputs_and_warnings(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["dedup", "a.jsonl", "-o", ODD],
        ["dedup", "a.jsonl", "-o", "b", "--index", f"known{ODD}"],
        ["index", "build", f"i{ODD}", "a.jsonl", "-o", f"{ODD}.parquet"],
        ["index", "query", f"i{ODD}", "a.jsonl", "-o", f"{ODD}.jsonl"],
        ["index", "compact", f"i{ODD}"],
    ):
        assert main(command) == 0
        assert harmless(capsys.readouterr())


def test_keys_that_a_query_prints_are_still_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.jsonl").write_text(json.dumps({"text": TEXT, "id": ODD + "\U000e0001"}) + "\n")
    assert main(["index", "build", "i", "b.jsonl", "--id-column", "id"]) == 0
    capsys.readouterr()
    assert main(["index", "query", "i", "b.jsonl", "--id-column", "id"]) == 0
    printed = capsys.readouterr()
    assert harmless(printed) and json.loads(printed.out)["duplicate_of"] == ODD + "\U000e0001"


def test_warnings_are_told(here: Path) -> None:
    """In a process of its own: here pytest listens to them."""
    import zipfile

    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("ok.jsonl", Path("a.jsonl").read_bytes())
        archive.writestr(f"../{ODD}.jsonl", b"{}")
    done = shell("dedup zip://::a.zip -o out", "")
    assert done.returncode == 0
    assert "zip://::a.zip: skips ../a\\u001b[2J" in done.stderr and "\x1b" not in done.stderr


# --- nobody reads it ---


def shell(command: str, behind: str) -> subprocess.CompletedProcess[str]:
    """The command in a shell, with what follows it there, and the status of the command itself."""
    return printing(f"{command} --backend reference", behind)


def printing(command: str, behind: str) -> subprocess.CompletedProcess[str]:
    """As `shell`, of a command that knows no backends."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = f"{sys.executable} -m gpulsh {command} {behind}"
    line += "\nexit ${PIPESTATUS[0]}"
    return subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True, env=environment)


CLOSED = [">&-", "<&- >&- 2>&-", "2> /dev/full", "2>&1 | true"]
FULL = "standard output cannot be written: No space left on device"


@pytest.mark.parametrize(("behind", "more"), zip(CLOSED, ["", "--json", "", "--json"], strict=True))
def test_a_finished_run_is_no_failure(here: Path, behind: str, more: str) -> None:
    done = shell(f"dedup a.jsonl -o out {more}", behind)
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert "cannot be written" not in done.stderr
    whole()


def test_a_finished_run_whose_report_cannot_be_printed(here: Path) -> None:
    done = shell("dedup a.jsonl -o out", "> /dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"gpulsh: error: all is done, but {FULL}"
    whole()


def whole() -> None:
    """The run in OUT is finished."""
    assert Path("out/data/a.jsonl").read_text().count("\n") == 1 and not Path("out/_work").exists()
    assert pq.read_table("out/duplicates.parquet").num_rows == 2
    assert json.loads(Path("out/report.json").read_text())["funnel"]["dropped"] == 2


def test_results_that_cannot_be_printed_are_a_failure(here: Path) -> None:
    assert main(["index", "build", "i", "a.jsonl"]) == 0
    done = shell("index query i a.jsonl", "> /dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"gpulsh: error: {FULL}"


@pytest.mark.parametrize("command", ["dedup --help-all", "curve"])
def test_what_needs_no_work_fails_where_it_cannot_be_printed(command: str) -> None:
    for behind, status, told in (("> /dev/full", 1, f"gpulsh: error: {FULL}\n"), (">&-", 0, "")):
        done = printing(command, behind)
        assert (done.returncode, done.stderr) == (status, told)
    assert printing(command, "| true").stderr == ""


def test_an_error_keeps_its_status(here: Path) -> None:
    assert printing("", "2> /dev/full").returncode == 2
    for behind in ("2>&-", "2>&1 | true"):
        assert shell("dedup none.jsonl -o out", behind).returncode == 1


def test_a_terminal_that_goes_away(here: Path) -> None:
    """Bars are shown until the terminal is closed amid the run, which goes on."""
    import pty

    leader, follower = pty.openpty()
    code = """
import sys, time
from gpulsh.run import driver
copies = driver.copies
def waiting(*arguments):
    sys.stdin.readline()
    return copies(*arguments)
driver.copies = waiting
from gpulsh.cli import main
sys.exit(main(["dedup", "a.jsonl", "-o", "out", "--backend", "reference"]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=follower, stderr=follower, text=True
    )
    os.close(follower)
    shown = os.read(leader, 100)
    os.close(leader)
    process.communicate("\n", timeout=60)
    assert shown and process.returncode == 0 and Path("out/report.json").exists()


def at_columns(width: int, *arguments: str) -> str:
    """What the command prints on a terminal of that width."""
    script = (
        "import fcntl, os, pty, struct, sys, termios\n"
        "pid, end = pty.fork()\n"
        "if pid == 0:\n"
        "    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 40, int(sys.argv[1]), 0, 0))\n"
        "    os.execv(sys.executable, [sys.executable, '-m', 'gpulsh', *sys.argv[2:]])\n"
        "try:\n"
        "    while found := os.read(end, 1 << 16):\n"
        "        os.write(1, found)\n"
        "except OSError:\n"
        "    pass\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "dumb"}
    command = [sys.executable, "-c", script, str(width), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.mark.parametrize("arguments", [["dedup", "--help-all"], ["index", "query", "--help"]])
def test_a_narrow_terminal_breaks_no_word_of_the_help(arguments: list[str]) -> None:
    whole, told = (at_columns(width, *arguments).split("Examples")[0] for width in (110, 45))
    assert max(len(line) for line in told.splitlines() if not line.startswith("  --")) <= 45
    assert "".join(told.split()) == "".join(whole.split())
    words = {word for word in whole.split() if len(word) <= 24 and "-" not in word}  # a hyphen may end a line
    assert words <= {*told.split()}


def test_a_narrow_terminal_breaks_no_word_of_a_result(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dedup", "a.jsonl", "-o", "out", "--backend", "reference"]) == 0
    capsys.readouterr()
    told = at_columns(45, "show", "out")
    assert max(map(len, told.splitlines())) <= 45
    assert main(["show", "out"]) == 0
    assert told.split() == capsys.readouterr().out.split()
