"""The command: its output, where it goes, and the exit status."""

import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import chdir, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn
from unittest.mock import Mock

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.backends.select import backend_status
from gpulsh.budget import parse_memory
from gpulsh.cli import main
from gpulsh.cli.dedup import COMMON, EXAMPLES, SECTIONS, dedup
from gpulsh.report.summary import summary
from gpulsh.run import driver
from tests.support.command import Command
from tests.support.files import write_rows
from tests.support.runs import environment, interrupted

TEXTS = [f"some words of a text that is about number {number} and nothing else at all" for number in range(20)]


DEDUP = "dedup a.parquet -o out --backend reference"


@pytest.fixture(autouse=True)
def corpus(folder: Path) -> None:
    write_rows("a.parquet", [*TEXTS, *TEXTS[:5]])


def test_dedup_prints_the_funnel(command: Command) -> None:
    status, out, err = command(DEDUP, "--verbose")
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert status == 0 and rows["documents"].split()[1] == "25"
    assert rows["kept"].split()[1] == str(pq.read_metadata("out/data/a.parquet").num_rows)
    assert int(rows["dropped"].split()[1]) == pq.read_metadata("out/duplicates.parquet").num_rows >= 5
    # Without a terminal: a line a stage, no bars, no colours.
    assert all(line.startswith("gpulsh: ") for line in err.splitlines())
    assert "\r" not in err and "\x1b" not in err + out
    kept, pairs, results = out.splitlines()[-3:]
    assert kept == "Kept 20 of 25 documents and dropped 5 (20.0 %): 5 exact copies."
    assert re.match(r"\d+ candidate pairs compared: 0 at or above 0.8, \d+ below\.$", pairs)
    assert re.match(r"Results are in out, after \d+\.\d s on ", results)
    assert command(DEDUP, "--overwrite").out.splitlines()[:2] == [kept, pairs]
    Path("twice.jsonl").write_text('{"text": "a b c"}\n' * 2)
    assert command("dedup twice.jsonl -o once --backend reference").out.splitlines()[1] == "No pairs were candidates."
    # A finished run is called so.
    report = json.loads(Path("out/report.json").read_text())
    again = {**report, "funnel": {**report["funnel"], "resumed": ["sign"]}}
    assert "Results are in out, resumed and finished after " in summary(again, "out", earlier=False)
    Path("out/report.json").write_text(json.dumps({**report, "began": "2026-01-31T23:59:59+00:00"}))
    last = "Results are in out, from the finished run that began at 2026-01-31T23:59:59+00:00."
    assert command(DEDUP, "--resume").out.splitlines()[-1] == last


def test_column_names_and_ids_are_utf8_in_any_locale(command: Command) -> None:
    """In the locale C without UTF-8 mode, Python reads each byte of such a character as a lone surrogate."""
    Path("a.csv").write_text("ü,x\n1,ü\n2,ü\n", encoding="utf-8")
    given = "ü".encode().decode("ascii", "surrogateescape")
    for options in (["--text-column", given], *(["--text-column", "x", name, given] for name in ("--key", "--keep"))):
        assert command("dedup a.csv -o out --overwrite --backend reference", *options).status == 0
    assert command("dedup a.csv -o out --overwrite --backend reference --text-column x --id-column x").status == 0
    assert "id ü" in command("show out --id", given).out
    assert command("index build index a.csv --backend reference --text-column x --id-column ü").status == 0
    assert command("index remove index 2", given).error.endswith("the key 'ü' is not in the index; leave it out")


def python(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The output of code in a process of its own, with these arguments."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=False, capture_output=True, env=environment() | variables, text=True)


def test_one_thread_starts_no_other_and_skips_the_last_collection() -> None:
    """For users who may have no more threads; Arrow starts none either, except its allocator's own."""
    code = """
import atexit, gc, os, threading
from pathlib import Path
def refuse(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
from gpulsh.cli import main
before = gc.get_threshold()
main(["--version"])
assert gc.get_threshold() == before  # a caller in its own process keeps its collector
atexit.register(lambda: print(gc.get_freeze_count(), gc.get_threshold()[0]))
status = main()
named = [Path("/proc/self/task", task, "comm").read_text() for task in os.listdir("/proc/self/task")]
print(status, sum("jemalloc" not in name for name in named), end=" ")
"""
    ran = python(code, *f"{DEDUP} --threads 1 --format jsonl --compression gzip".split(), OPENBLAS_NUM_THREADS="4")
    status, threads, frozen, threshold = map(int, ran.stdout.splitlines()[-1].split())
    assert (status, threads) == (0, 1) and threshold > frozen > 10_000, ran.stderr


def test_a_thread_that_cannot_start_is_a_plain_error(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows("a.arrow", pa.table({"text": pa.array([], pa.string())}))
    message = "no more threads can be started: the system allows"
    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", Mock(side_effect=RuntimeError("can't start new thread")))
        assert command(DEDUP, "--threads", "2").error.startswith(message)
    of_arrow = "Unknown error: Failed to launch worker thread: Resource temporarily unavailable"
    monkeypatch.setattr("pyarrow.ipc.open_file", Mock(side_effect=pa.ArrowException(of_arrow)))
    assert command("dedup a.arrow -o out --backend reference").error.startswith(message) and not Path("out").exists()


def test_a_backend_that_cannot_be_loaded_is_a_plain_error(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unloadable:
        def __getattr__(self, name: str) -> None:
            raise OSError("Could not find/load shared object file 'libllvmlite.so'. This could mean much.")

    monkeypatch.setitem(sys.modules, "gpulsh.backends.cpu", Unloadable())
    error = command("dedup a.parquet -o out --backend cpu").error
    assert error.startswith("--backend 'cpu' cannot be loaded: Could not find/load shared object file")
    assert "give --backend reference" in error and not Path("out").exists()
    assert "NUMBA_DISABLE_JIT is set" in python("import gpulsh.backends.cpu", NUMBA_DISABLE_JIT="1").stderr


def test_help_groups_options_and_its_examples_parse(command: Command) -> None:
    shown = command("dedup --help").out
    assert shown.index("# ") < shown.index("--output") and shown.count("gpulsh dedup ") == 4
    flags = {option.name: max(option.opts, key=len) for option in dedup.params}
    assert re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE)[:12] == [flags[name] for name in COMMON]
    shown = command("dedup --help-all").out
    headings = re.findall(r"^(\w.*):$", shown, flags=re.MULTILINE)
    assert headings == [*SECTIONS.values(), "Other", "Examples"] and set(SECTIONS) <= flags.keys()
    for line, meaning in EXAMPLES.items():
        assert f"  # {meaning}\n  {line}\n" in shown
        dedup.make_context("dedup", shlex.split(line)[2:])


def test_help_version_and_unknown_commands_have_their_status(command: Command) -> None:
    for line in ("-h", "dedup -h", "info --help", "curve --help"):
        shown = command(line)
        assert shown.status == 0 and shown.out.startswith("Usage: gpulsh"), (line, shown)
    assert command("--version") == (0, f"gpulsh {gpulsh.__version__}\n", "")
    assert command("dedupe").error.startswith("No such command 'dedupe'") and command("").status == 2


def test_errors_are_one_line_and_defects_have_a_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = command("dedup no.parquet -o out --verbose")
    assert status == 1 and err.startswith("Traceback")
    assert err.endswith("gpulsh: error: no.parquet: no such file or folder\n")

    monkeypatch.setattr(driver, "write_evidence", Mock(side_effect=KeyError("first line\nsecond line")))
    assert command(DEDUP).error.startswith("unexpected KeyError") and os.listdir() == ["a.parquet"]
    given = os.path.abspath("a.parquet")
    Path("gone").mkdir()
    with chdir("gone"):
        os.rmdir("../gone")
        assert command("dedup", given, "-o", "out").error == "the current folder was removed; change to another one"


SIGNALS = {
    signal.SIGINT: (130, "gpulsh: interrupted"),
    signal.SIGTERM: (143, "gpulsh: interrupted by SIGTERM"),
    signal.SIGHUP: (129, "gpulsh: interrupted by SIGHUP"),
}


def end_by(number: signal.Signals, *arguments: str, ignored: bool = False) -> int:
    """The exit status of a command after the signal is raised in this process."""
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, signal.SIG_IGN if ignored else usual)  # these tests may run under nohup, too
    try:
        return main(arguments)
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
    finally:
        signal.signal(number, before)


def test_finished_stages_outlive_an_interrupt(command: Command) -> None:
    """In a process of its own, which gets the signal in a stage that never ends; Ray may abort Python's shutdown."""
    code = """
import atexit, os, signal, sys, time
from gpulsh.run import driver
def endless(*_):
    print("ready", flush=True)
    for _ in range(600):  # one long sleep would begin although the signal has come just before
        time.sleep(0.1)
driver.find_exact_copies = endless
signal.signal(signal.SIGTERM, signal.SIG_DFL)
atexit.register(os.abort)
from gpulsh.cli import main
sys.argv = "gpulsh dedup a.parquet -o new/out --backend reference".split()
sys.exit(main())
"""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment()}
    process = subprocess.Popen([sys.executable, "-c", code], **pipes)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    assert Path("new/out/_work").is_dir()
    process.send_signal(signal.SIGTERM)
    stage, *reported = process.communicate(timeout=30)[1].splitlines()
    assert stage.startswith("gpulsh: sign: ")
    keeps = "gpulsh: new/out: keeps the finished part of this run; --resume continues it"
    status, line = SIGNALS[signal.SIGTERM]
    assert (process.returncode, reported) == (status, [keeps, line])
    again = "dedup a.parquet -o new/out --backend reference"
    assert "holds an unfinished run; give --resume to continue it" in command(again).error
    lines = command(again, "--resume").err.splitlines()
    assert lines[0] == "gpulsh: sign: 25 documents, 1.7 kB, done before"
    assert not any("done before" in line for line in lines[1:])
    assert pq.read_table("new/out/data/a.parquet").num_rows == 20 and os.listdir("new/out/data") == ["a.parquet"]
    report = json.loads(Path("new/out/report.json").read_text())
    assert report["funnel"]["resumed"] == ["sign"]


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_before_the_first_stage_ends_leaves_nothing(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = driver.sign_partition

    def raising(*arguments: Any) -> Any:
        signal.raise_signal(number)
        return sign(*arguments)

    monkeypatch.setattr(driver, "sign_partition", raising)
    job = DEDUP.replace("out", "new/out").split()
    assert end_by(number, *job) == SIGNALS[number][0]
    assert capsys.readouterr().err.splitlines() == [SIGNALS[number][1]] and os.listdir() == ["a.parquet"]
    if number == signal.SIGHUP:  # nohup ignores it
        assert end_by(number, *job, ignored=True) == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_leaves_no_sample_in_the_temporary_folder(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(arguments: Sequence[str], out: Path) -> NoReturn:
        assert os.listdir("tmp")
        signal.raise_signal(number)
        raise AssertionError

    Path("tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", "tmp")
    monkeypatch.setattr("gpulsh.forecast.sample.run_dedup", raising)
    assert end_by(number, "plan", "a.parquet") == SIGNALS[number][0]
    assert (capsys.readouterr().err.splitlines(), os.listdir("tmp")) == ([SIGNALS[number][1]], [])


@pytest.mark.parametrize("error", [ImportError("it failed to import"), SystemExit(1)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_library_turns_into_an_error_ends_the_command(
    number: signal.Signals, error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import of a C library may turn the signal into an ImportError without a cause, and Ray into SystemExit(1)."""

    @click.command()
    def info() -> None:
        with suppress(BaseException):
            signal.raise_signal(number)
        raise error

    monkeypatch.setattr("gpulsh.cli.show.info", info)
    assert (end_by(number, "info"), capsys.readouterr().err.splitlines()) == (SIGNALS[number][0], [SIGNALS[number][1]])


@pytest.mark.parametrize("module", ["llvmlite.binding", "other"])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_a_callback_from_c_ends_the_command(
    module: str, number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception there would go no further."""

    def notify() -> None:
        signal.raise_signal(number)

    scope = {"__name__": module, "signal": signal}
    callback = FunctionType(notify.__code__, scope, closure=notify.__closure__)

    @click.command()
    def info() -> None:
        ctypes.CFUNCTYPE(None)(callback)()
        threading.Event().wait(10)

    monkeypatch.setattr("gpulsh.cli.show.info", info)
    assert (end_by(number, "info"), capsys.readouterr().err.splitlines()) == (SIGNALS[number][0], [SIGNALS[number][1]])


def test_an_interrupted_command_leaves_no_partial_file(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes while the last file is written."""

    monkeypatch.setattr("gpulsh.run.signatures._make_table", interrupted)
    monkeypatch.setattr("gpulsh.run.index.jobs.duplicate_rows", interrupted)
    for line in ("sign a.parquet -o signed.parquet", "index build index a.parquet -o found.jsonl"):
        status, _, err = command(line, "--backend", "reference")
        assert (status, err.splitlines()[-1]) == (130, "gpulsh: interrupted") and os.listdir() == ["a.parquet"]


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
import atexit, os, sys
from gpulsh.cli import commands, main
def pressed(*_, **__):
    raise KeyboardInterrupt
atexit.register(os.abort)  # as Ray may do
commands.group.main = pressed
sys.exit(main())
"""


@pytest.mark.parametrize("code", [WHILE_IT_BEGINS, WHILE_IT_ENDS])
def test_an_interrupt_at_start_or_exit_prints_no_traceback(code: str) -> None:
    ran = python(code)
    assert (ran.returncode, ran.stderr) == (130, "gpulsh: interrupted\n")


WHILE_IT_READS = """
import os, sys, tempfile
from gpulsh.cli import main
from gpulsh.run import signatures
def pressed(*_):
    assert os.listdir("copies")
    raise KeyboardInterrupt
signatures._make_table = pressed
tempfile.tempdir = "copies"
os.dup2(os.open("a.parquet", os.O_RDONLY), 0)
sys.argv = "gpulsh sign - -o signed.parquet --backend reference".split()
sys.exit(main())
"""


def test_an_interrupt_removes_the_copy_of_standard_input() -> None:
    Path("copies").mkdir()
    ran = python(WHILE_IT_READS)
    assert (ran.returncode, ran.stderr, os.listdir("copies")) == (130, "gpulsh: interrupted\n", [])


@pytest.mark.parametrize(
    "how",
    [
        "in.parquet --text-column title,meta.body",
        "in.txt --lines",
        "in --as-text *.py",
        "in.csv --delimiter ; --encoding latin-1",
    ],
)
def test_all_commands_take_the_same_read_options(how: str, command: Command) -> None:
    words = [" ".join(f"w{n % 3}xé{k}" for k in range(9)) for n in range(6)]
    write_rows("in.parquet", [{"title": text[:3], "meta": {"body": text}} for text in words])
    Path("in.txt").write_text("\n".join(words))
    Path("in.csv").write_text("id;text\n" + "".join(f"1;{text}\n" for text in words), encoding="latin-1")
    for number, text in enumerate(words):
        Path(f"in/{number % 2}").mkdir(parents=True, exist_ok=True)
        Path(f"in/{number % 2}/{number}.py").write_text(text)
    for line, message in (
        ("dedup -o out", "Kept 3 of 6 documents"),
        ("dedup -o none --dry-run", ""),
        ("index build index", "Kept 3 of 6 documents"),
        ("index query index", '"similarity": 1.0'),
        ("sign -o signed.parquet", "6 documents"),
        ("sample", "6 of 6 documents compared"),
        ("curve --study", "6 of 6 documents"),
    ):
        ran = command(f"{line} {how} --backend cpu")
        assert ran.status == 0 and message in ran.out + ran.err, ran
    assert not Path("none").exists() and "w2xé0 w2xé1" in command("show out").out


def test_info_reports_versions_backends_and_devices(command: Command) -> None:
    found = json.loads(command("info --json").out)
    assert found["versions"]["gpulsh"] == gpulsh.__version__
    assert {"python", "numpy", "numba", "pyarrow"} <= set(found["versions"])
    for name, reason in backend_status().items():
        assert found["backends"][name] == {"available": reason is None, "reason": reason}
    assert found["devices"]["cpu"]["threads"] >= 1
    text = command("info").out
    assert "reference   works" in text and "numpy" in text
    assert found["memory"]["host"] == parse_memory(None) and "without --memory" in text
