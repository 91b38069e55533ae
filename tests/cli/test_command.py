"""The command: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.cli import main
from gpulsh.cli.dedup import COMMON, EXAMPLES, SECTIONS, dedup
from tests.support.runs import environment

TEXTS = [f"some words of a text that is about number {number} and nothing else at all" for number in range(20)]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"text": [*TEXTS, *TEXTS[:5]]}), "a.parquet")
    return tmp_path


def test_dedup_prints_the_funnel(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dedup", "a.parquet", "-o", "out", "--backend", "reference", "--verbose"]) == 0
    printed = capsys.readouterr()
    rows = {line.split("  ")[0]: line for line in printed.out.splitlines()}
    assert rows["documents"].split()[1] == "25"
    assert rows["kept"].split()[1] == str(pq.read_metadata("out/data/a.parquet").num_rows)
    assert int(rows["dropped"].split()[1]) == pq.read_metadata("out/duplicates.parquet").num_rows >= 5
    # Without a terminal: a line a stage, no bars, no colours.
    assert all(line.startswith("gpulsh: ") for line in printed.err.splitlines())
    assert "\r" not in printed.err and "\x1b" not in printed.err + printed.out
    kept, pairs, results = printed.out.splitlines()[-3:]
    assert kept == "Kept 20 of 25 documents and dropped 5 (20.0 %): 5 exact copies."
    assert re.match(r"\d+ candidate pairs compared: 0 at or above 0.8, \d+ below\.$", pairs) and re.match(
        r"Results are in out, after \d+\.\d s on ", results
    )
    assert main(["dedup", "a.parquet", "-o", "again", "--backend", "reference"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [kept, pairs]


def python(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What the code prints in a process of its own, with these arguments."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=False, capture_output=True, env=environment() | variables, text=True)


def test_a_process_starts_no_threads_and_frees_nothing_at_its_end() -> None:
    code = """
import atexit, gc, os
from gpulsh.cli import main
before = gc.get_threshold()
main(["--version"])
assert gc.get_threshold() == before  # a caller in its own process keeps its collector
atexit.register(lambda: print(gc.get_freeze_count(), gc.get_threshold()[0], len(os.listdir("/proc/self/task"))))
main()
"""
    done = python(code, "curve", "--bands", "42", "--rows", "3", OPENBLAS_NUM_THREADS="4")
    frozen, threshold, threads = map(int, done.stdout.splitlines()[-1].split())
    assert frozen > 10_000 and threshold > frozen and threads == 1


def test_one_thread_starts_no_other(corpus: Path) -> None:
    """For users who may have no more; Arrow starts none either, except its allocator's own."""
    code = """
import os, threading
from pathlib import Path
from typing import Any
def start(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
from gpulsh.cli import main
status = main()
named = [Path("/proc/self/task", task, "comm").read_text() for task in os.listdir("/proc/self/task")]
print(status, sum("jemalloc" not in name for name in named))
"""
    command = "dedup a.parquet -o out --backend reference --threads 1 --format jsonl --compression gzip"
    ran = python(code, *command.split())
    assert ran.stdout.splitlines()[-1] == "0 1", ran.stderr


def test_threads_that_the_system_does_not_start(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    def refuse_arrow(*arguments: object, **options: object) -> None:
        raise pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable")

    with pa.OSFile("a.arrow", "wb") as sink, pa.ipc.new_file(sink, pa.schema({"text": pa.string()})):
        pass
    told = "gpulsh: error: no more threads can be started: the system allows"
    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", refuse)
        assert main(["dedup", "a.parquet", "-o", "out", "--backend", "reference", "--threads", "2"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(told)
    monkeypatch.setattr("pyarrow.ipc.open_file", refuse_arrow)
    assert main(["dedup", "a.arrow", "-o", "out", "--backend", "reference"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(told) and not Path("out").exists()


def test_a_backend_that_cannot_be_loaded(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Unloadable:
        def __getattr__(self, name: str) -> None:
            raise OSError("Could not find/load shared object file 'libllvmlite.so'. This could mean much.")

    monkeypatch.setitem(sys.modules, "gpulsh.backends.cpu", Unloadable())
    assert main(["dedup", "a.parquet", "-o", "out", "--backend", "cpu"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("gpulsh: error: backend 'cpu' cannot be loaded: Could not find/load shared object file")
    assert "give --backend reference" in told and not Path("out").exists()


def test_options_reach_the_report_that_json_prints(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--threshold 0.6 --shingle char:7 --num-perm 64 --bands 16 --rows 4 --seed 9 --verify signature"
    arguments += " --resolve components --keep longest --write duplicates --threads 1 --json"
    assert main(["dedup", "a.parquet", "-o", "out", "--backend", "reference", *arguments.split()]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads(Path("out/report.json").read_text()) and report["funnel"]["dropped"] >= 5
    found = report["parameters"]
    assert (found["threshold"], found["shingling"]) == (0.6, {"unit": "char", "size": 7})
    assert found["family"] == {"name": "affine32", "num_perm": 64, "seed": 9}
    assert found["banding"] == {"bands": 16, "rows": 4}
    assert (found["verify"], found["resolve"]) == ("signature", "components")
    assert (found["keep"], found["write"], found["threads"]) == ("longest", "duplicates", 1)
    assert not Path("out/data").exists()


def test_bars_on_a_terminal(corpus: Path) -> None:
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "gpulsh", "dedup", "a.parquet", "-o", "out", "--backend", "reference"]
    ran = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, env={**environment(), "TERM": "xterm"})
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 1 << 16):
            shown += part
    except OSError:  # the terminal closes with the process
        pass
    assert ran.wait() == 0
    assert b"\x1b[" in shown and b"sign" in shown and b"/s" in shown
    assert b"gpulsh: sign" not in shown


def test_dedup_has_its_options_under_headings_and_examples_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dedup", "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("# ") < shown.index("--output") and shown.count("gpulsh dedup ") == 4
    flags = [option for option in dedup.params if option.name in COMMON]
    assert re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE)[:12] == [
        max((flag for flag in option.opts), key=len) for name in COMMON for option in flags if option.name == name
    ]
    assert main(["dedup", "--help-all"]) == 0
    shown = capsys.readouterr().out
    headings = re.findall(r"^(\w.*):$", shown, flags=re.MULTILINE)
    assert headings == [*SECTIONS.values(), "Other", "Examples"]
    assert set(SECTIONS) <= {option.name for option in dedup.get_params(click.Context(dedup))}
    for line, meaning in EXAMPLES.items():
        assert f"  # {meaning}\n  {line}\n" in shown
        dedup.make_context("dedup", shlex.split(line)[2:])


def test_help_version_and_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["-h"], ["dedup", "-h"], ["info", "--help"], ["curve", "--help"]):
        assert main(arguments) == 0 and capsys.readouterr().out.startswith("Usage: gpulsh")
    assert main(["--version"]) == 0 and capsys.readouterr().out == f"gpulsh {gpulsh.__version__}\n"
    assert main(["dedupe"]) == 2
    assert capsys.readouterr().err.startswith("gpulsh: error: No such command 'dedupe'")
    assert main([]) == 2


def test_verbose_shows_the_traceback(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dedup", "no.parquet", "-o", "out", "--verbose"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.endswith("gpulsh: error: no.parquet: no such file or folder\n")


def test_a_defect_is_told_as_one(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*_: object) -> None:
        raise KeyError("first line\nsecond line")

    monkeypatch.setattr("gpulsh.run.driver.evidence", defect)
    assert main(["dedup", "a.parquet", "-o", "out", "--backend", "reference"]) == 1
    assert "gpulsh: error: unexpected KeyError" in capsys.readouterr().err.splitlines()[-1]
    assert os.listdir() == ["a.parquet"]


def interrupted(number: signal.Signals, endless: str, *, ignored: bool = False) -> tuple[int, list[str]]:
    """The status, and what is told, of a run that gets the signal in a stage that never ends."""
    usual = "default_int_handler" if number == signal.SIGINT else "SIG_DFL"  # these tests may run under nohup, too
    code = f"""
import signal, sys, time
from gpulsh.run import driver
def endless(*_):
    print("ready", flush=True)
    time.sleep(3 if {ignored} else 60)
    sys.exit(77)
{endless} = endless
signal.signal({int(number)}, signal.{"SIG_IGN" if ignored else usual})
from gpulsh.cli import main
sys.exit(main(["dedup", "a.parquet", "-o", "new/out", "--backend", "reference"]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert Path("new/out/_work").is_dir()
    time.sleep(0.05)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    return process.returncode, error.splitlines()


SIGNALS = {
    signal.SIGINT: (130, "gpulsh: interrupted"),
    signal.SIGTERM: (143, "gpulsh: interrupted by SIGTERM"),
    signal.SIGHUP: (129, "gpulsh: interrupted by SIGHUP"),
}


def test_what_is_finished_outlives_an_interrupt(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = signal.SIGTERM
    status, (stage, *told) = interrupted(number, "driver.copies")
    assert stage.startswith("gpulsh: sign: ")
    keeps = "gpulsh: new/out: keeps the finished part of this run; --resume continues it"
    assert (status, told) == (SIGNALS[number][0], [keeps, SIGNALS[number][1]])
    command = ["dedup", "a.parquet", "-o", "new/out", "--backend", "reference"]
    assert main(command) == 1
    assert "holds an unfinished run; give --resume to continue it" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "gpulsh: sign: 25 documents, 1.7 kB, done before"
    assert not any("done before" in line for line in told[1:])
    assert pq.read_table("new/out/data/a.parquet").num_rows == 20 and os.listdir("new/out/data") == ["a.parquet"]
    report = json.loads(Path("new/out/report.json").read_text())
    assert report["funnel"]["resumed"] == ["sign"]


def test_a_run_that_was_finished_before_is_called_so(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["dedup", "a.parquet", "-o", "out", "--backend", "reference", "--resume"]
    assert main(command) == 0 and "\nResults are in out, after " in capsys.readouterr().out
    report = json.loads(Path("out/report.json").read_text())
    Path("out/report.json").write_text(json.dumps({**report, "began": "2026-01-31T23:59:59+00:00"}))
    assert main(command) == 0
    told = "Results are in out, from the finished run that began at 2026-01-31T23:59:59+00:00."
    assert capsys.readouterr().out.splitlines()[-1] == told


@pytest.mark.parametrize("number", SIGNALS)
def test_where_nothing_is_finished_an_interrupt_leaves_nothing(corpus: Path, number: signal.Signals) -> None:
    assert interrupted(number, "driver.sign") == (SIGNALS[number][0], [SIGNALS[number][1]])
    assert os.listdir() == ["a.parquet"]


def test_files_of_other_commands_are_whole_or_not_there(corpus: Path) -> None:
    """As after an interrupt while the last of them is written."""
    code = """
import sys
from gpulsh.cli import main
from gpulsh.run import indexing, signatures
def interrupted(*_):
    raise KeyboardInterrupt
signatures._table = indexing.Duplicates.tables = interrupted
sys.exit(main())
"""
    for command in ("sign a.parquet -o signed.parquet", "index build index a.parquet -o found.jsonl"):
        ended = python(code, *command.split(), "--backend", "reference")
        assert (ended.returncode, ended.stderr.splitlines()[-1]) == (130, "gpulsh: interrupted")
        assert os.listdir() == ["a.parquet"]


WHILE_IT_BEGINS = """
import sys
class Pressed:
    def find_spec(self, name, *_):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
from gpulsh.cli import main
"""
WHILE_IT_ENDS = """
import os, signal, sys, threading, time
from gpulsh.cli import commands, main
signal.signal(signal.SIGINT, signal.default_int_handler)
def pressed(*_, **__):
    threading.Thread(target=again).start()
    raise KeyboardInterrupt
def again():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
commands.group.main = pressed
sys.exit(main())
"""


@pytest.mark.parametrize(("code", "status"), [(WHILE_IT_BEGINS, 130), (WHILE_IT_ENDS, -signal.SIGINT)])
def test_an_interrupt_of_python_itself_is_no_traceback(code: str, status: int) -> None:
    ran = python(code)
    assert (ran.returncode, ran.stderr) == (status, "gpulsh: interrupted\n")


def test_a_hangup_that_nohup_ignores(corpus: Path) -> None:
    assert interrupted(signal.SIGHUP, "driver.sign", ignored=True) == (77, [])


def test_a_closed_pipe_is_no_traceback() -> None:
    command = f"{sys.executable} -m gpulsh info | true; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, env=environment())
    assert ran.stderr == ""


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    from gpulsh.backends.select import backend_status

    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["gpulsh"] == gpulsh.__version__
    assert {"python", "numpy", "numba", "pyarrow"} <= set(found["versions"])
    for name, reason in backend_status().items():
        assert found["backends"][name] == {"available": reason is None, "reason": reason}
    assert found["devices"]["cpu"]["threads"] >= 1
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert "reference   works" in text
    assert "numpy" in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_library_makes_of_a_signal_is_the_signal(number: signal.Signals) -> None:
    """A library in C that is being imported may end in an ImportError, which names no cause."""
    code = f"""
import os, signal
signal.signal({int(number)}, signal.{"default_int_handler" if number == signal.SIGINT else "SIG_DFL"})
import gpulsh.cli.show
from gpulsh.cli.terminal import clean_end
from gpulsh.cli import main
import click

@click.command()
def info():
    with clean_end():
        try:
            os.kill(os.getpid(), {int(number)})
        except BaseException:
            pass
        raise ImportError("it failed to import")

gpulsh.cli.show.info = info
raise SystemExit(main(["info"]))
"""
    ended = python(code)
    assert (ended.returncode, ended.stderr.splitlines()) == (SIGNALS[number][0], [SIGNALS[number][1]])
