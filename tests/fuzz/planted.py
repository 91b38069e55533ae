"""Commands with one fault each, which the judge must find: PLANTED maps their names to kinds of findings."""

import ctypes
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PLANTED: dict[str, str] = {}
Act = Callable[[], Any]


def honest(arguments: list[str]) -> int:
    from gpulsh.cli import main

    return main(arguments)


def inherited(arguments: list[str]) -> int:
    """No fault: a command of its own process takes no such memory."""
    if "tests.fuzz.formats" in sys.modules:
        _take_memory()
    return honest(arguments)


def _plant(
    name: str, kind: str, before: Act = lambda: None, then: int | None = None, after: Act = lambda: None
) -> None:
    """Add a command `name` that acts before and after the honest one, or ends with status `then` in its place."""

    def command(arguments: list[str]) -> int:
        before()
        status = honest(arguments) if then is None else then
        after()
        return status

    globals()[name], PLANTED[name] = command, kind


def _error(message: str) -> None:
    print(message, file=sys.stderr)


def _raise() -> None:
    raise ValueError("nobody caught it")


def _take_memory() -> None:
    content = bytearray(700 << 20)
    content[:: 1 << 12] = bytes(len(content[:: 1 << 12]))


def _write_and_hide() -> None:
    path = Path("..", "new.txt")
    path.write_text("new")
    path.unlink()


def _write_through_a_link() -> None:
    os.symlink("../in/a.jsonl", "tmp/link")
    with open("tmp/link", "ab") as file:
        file.write(b"\n")
    os.unlink("tmp/link")


_plant("segfault", "signal", lambda: ctypes.string_at(1))
_plant("sleep", "hang", lambda: time.sleep(600))
_plant("spin", "hang", lambda: all(itertools.repeat(1)))
_plant("unexpected", "unexpected", lambda: _error("gpulsh: error: unexpected KeyError: 'tokens'"), 1)
_plant("traceback", "unexpected", _raise)
_plant("odd_status", "status", lambda: None, 3)
_plant("silent", "message", lambda: None, 1)
_plant("escape", "control", lambda: _error("gpulsh: error: a column \x1b[2J"), 1)
_plant("memory", "memory", _take_memory)
_plant("much_memory", "memory", lambda: [os.urandom(1 << 12) * (1 << 12) for _ in itertools.count()])
_plant("writes_beside", "outside", lambda: Path("in/new.txt").write_text("new"))
_plant("writes_and_hides", "outside", _write_and_hide)
# Without a name, but outside of the case's folder.
_plant("writes_elsewhere", "outside", lambda: os.close(os.open("..", os.O_TMPFILE | os.O_RDWR)))
_plant("writes_through_a_link", "outside", _write_through_a_link)
# By a library that is not Python's, so that there is no event.
_plant("changes_input", "outside", lambda: ctypes.CDLL(None).truncate(b"in/a.jsonl", 1 << 20), 0)
_plant("deletes", "outside", lambda: os.remove("beside/precious.txt"))
_plant("reads", "outside", lambda: Path("beside/precious.txt").read_text())
_plant("executes", "outside", lambda: subprocess.run(["true"], check=True))
_plant("left_behind", "left", lambda: (os.makedirs("out/data"), _error("gpulsh: error: an error")), 1)


def _rows(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[], None]:
    def act() -> None:
        table = pq.read_table("out/duplicates.parquet")
        rows = table.to_pylist()
        change(rows)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), "out/duplicates.parquet")

    return act


def _lines(change: Callable[[list[bytes]], Any]) -> Callable[[], None]:
    def act() -> None:
        path = Path("out/data/a.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)
        change(lines)
        path.write_bytes(b"".join(lines))

    return act


def _keep_copies() -> None:
    """The results of a run that finds no copies, and whose counts add up."""
    _rows(list.clear)()
    report = json.loads(Path("out/report.json").read_text())
    report["funnel"] |= {"dropped": 0, "kept": report["funnel"]["documents"]}
    Path("out/report.json").write_text(json.dumps(report))
    Path("out/data/a.jsonl").write_bytes(Path("in/a.jsonl").read_bytes())


_plant("similarity", "evidence", after=_rows(lambda rows: rows[0].update(similarity=0.99)))
_plant("low_similarity", "evidence", after=_rows(lambda rows: rows[0].update(similarity=0.1)))
_plant("false_witness", "evidence", after=_rows(lambda rows: rows[0].update(duplicate_of_row=3)))
_plant("dropped_witness", "evidence", after=_rows(lambda rows: rows[0].update(duplicate_of_row=rows[1]["row"])))
_plant("no_witness", "evidence", after=_rows(lambda rows: rows[0].update(duplicate_of_row=1000)))
_plant("twice", "evidence", after=_rows(lambda rows: rows.insert(0, dict(rows[0]))))
_plant("unlisted", "counts", after=_rows(lambda rows: rows.pop()))
_plant("line_lost", "data", after=_lines(lambda lines: lines.pop()))
_plant("line_changed", "data", after=_lines(lambda lines: lines.__setitem__(0, lines[0].replace(b"word0", b"word9"))))
_plant("line_twice", "data", after=_lines(lambda lines: lines.insert(0, lines[0])))
_plant("copy_kept", "missed", after=_keep_copies)
_plant("no_report", "results", after=lambda: os.remove("out/report.json"))
