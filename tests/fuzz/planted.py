"""Commands that do what no run may do, each in one way: what the judge must find."""

from __future__ import annotations

import ctypes
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

Command = Callable[[list[str]], int]


def honest(arguments: list[str]) -> int:
    """gpulsh itself."""
    from gpulsh.cli import main

    return main(arguments)


def segfault(arguments: list[str]) -> int:
    ctypes.string_at(1)
    return 0


def sleep(arguments: list[str]) -> int:
    time.sleep(600)
    return 0


def spin(arguments: list[str]) -> int:
    while True:
        pass


def unexpected(arguments: list[str]) -> int:
    print("gpulsh: error: unexpected KeyError: 'tokens'; --verbose shows where", file=sys.stderr)
    return 1


def traceback(arguments: list[str]) -> int:
    raise ValueError("nobody caught it")


def odd_status(arguments: list[str]) -> int:
    return 3


def silent(arguments: list[str]) -> int:
    return 1


def escape(arguments: list[str]) -> int:
    print("gpulsh: error: a column \x1b[2J", file=sys.stderr)
    return 1


def memory(arguments: list[str]) -> int:
    """For a moment."""
    content = bytearray(700 << 20)
    content[:: 1 << 12] = bytes(len(content[:: 1 << 12]))
    return honest(arguments)


def much_memory(arguments: list[str]) -> int:
    """Until the machine has none left."""
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 12) * (1 << 12)))


def writes_beside(arguments: list[str]) -> int:
    Path("in/new.txt").write_text("new")
    return honest(arguments)


def writes_and_hides(arguments: list[str]) -> int:
    """Nothing of it can be seen afterwards."""
    path = Path("..", "new.txt")
    path.write_text("new")
    path.unlink()
    return honest(arguments)


def writes_elsewhere(arguments: list[str]) -> int:
    """Without a name, but outside of the case's folder."""
    os.close(os.open("..", os.O_TMPFILE | os.O_RDWR))
    return honest(arguments)


def writes_through_a_link(arguments: list[str]) -> int:
    os.makedirs("out")
    os.symlink("../in/a.jsonl", "out/link")
    with open("out/link", "ab") as file:
        file.write(b"\n")
    os.unlink("out/link")
    os.rmdir("out")
    return honest(arguments)


def changes_input(arguments: list[str]) -> int:
    """As a library may that is not Python's, so that no event tells of it."""
    ctypes.CDLL(None).truncate(b"in/a.jsonl", 1 << 20)
    return 0


def deletes(arguments: list[str]) -> int:
    os.remove("beside/precious.txt")
    return honest(arguments)


def reads(arguments: list[str]) -> int:
    Path("beside/precious.txt").read_text()
    return honest(arguments)


def executes(arguments: list[str]) -> int:
    subprocess.run(["true"], check=True)
    return honest(arguments)


def left_behind(arguments: list[str]) -> int:
    os.makedirs("out/data")
    print("gpulsh: error: an error", file=sys.stderr)
    return 1


def _with_rows(change: Callable[[list[dict[str, Any]]], Any]) -> Command:
    """A command whose evidence is changed behind its back."""

    def command(arguments: list[str]) -> int:
        status = honest(arguments)
        path = Path("out/duplicates.parquet")
        table = pq.read_table(path)
        rows = table.to_pylist()
        change(rows)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
        return status

    return command


def _kept_file(change: Callable[[list[bytes]], Any]) -> Command:
    """A command whose kept lines are changed behind its back."""

    def command(arguments: list[str]) -> int:
        status = honest(arguments)
        path = Path("out/data/a.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)
        change(lines)
        path.write_bytes(b"".join(lines))
        return status

    return command


similarity = _with_rows(lambda rows: rows[0].update(similarity=0.99))
low_similarity = _with_rows(lambda rows: rows[0].update(similarity=0.1))
false_witness = _with_rows(lambda rows: rows[0].update(duplicate_of_row=3))
dropped_witness = _with_rows(lambda rows: rows[0].update(duplicate_of_row=rows[1]["row"]))
no_witness = _with_rows(lambda rows: rows[0].update(duplicate_of_row=1000))
twice = _with_rows(lambda rows: rows.insert(0, dict(rows[0])))
unlisted = _with_rows(lambda rows: rows.pop())
line_lost = _kept_file(lambda lines: lines.pop())
line_changed = _kept_file(lambda lines: lines.__setitem__(0, lines[0].replace(b"word0", b"word9")))
line_twice = _kept_file(lambda lines: lines.insert(0, lines[0]))


def copy_kept(arguments: list[str]) -> int:
    """A run that finds no copies at all, and whose books are in order."""
    source = Path("in/a.jsonl")
    status = honest([*arguments, "--write", "duplicates"])
    path = Path("out/duplicates.parquet")
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    report = json.loads(Path("out/report.json").read_text())
    report["funnel"] |= {"dropped": 0, "kept": report["funnel"]["documents"]}
    Path("out/report.json").write_text(json.dumps(report))
    os.makedirs("out/data", exist_ok=True)
    Path("out/data/a.jsonl").write_bytes(source.read_bytes())
    return status


def no_report(arguments: list[str]) -> int:
    status = honest(arguments)
    os.remove("out/report.json")
    return status
