"""Parquet files whose footers or page headers say what is not so: one clear error each, and no row lost in silence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import DamagedInputError
from tests.fuzz.parquet import ROW_GROUPS, chunks, footer, with_footer
from tests.fuzz.thrift import BINARY, I32, I64, LIST, STRUCT, field, read_struct, set_field, write_struct

Fields = list[list[Any]]
SIZES, COLUMNS, ENCRYPTED, ROWS, PATH = 16, 1, 8, 3, 3


def group(fields: Fields, number: int = 0) -> Fields:
    return field(fields, ROW_GROUPS)[1][number]


def deep_levels(fields: Fields) -> None:
    set_field(field(chunks(fields)[1], SIZES), 3, LIST, [I64, [1, 2, 3, 4, 5]])


def deep_repetition(fields: Fields) -> None:
    set_field(field(chunks(fields)[0], SIZES), 2, LIST, [I64, [0] * 300])


def bytes_of_numbers(fields: Fields) -> None:
    set_field(field(chunks(fields)[1], SIZES), 1, I64, 8)


def unknown_codec(fields: Fields) -> None:
    set_field(chunks(fields)[1], 4, I32, 30_188_203)


def negative_codec(fields: Fields) -> None:
    set_field(chunks(fields)[0], 4, I32, -1)


def unknown_type(fields: Fields) -> None:
    set_field(chunks(fields)[1], 1, I32, 99)


def encrypted(fields: Fields) -> None:
    key = [[2, STRUCT, [[1, LIST, [BINARY, [b"text"]]]]]]
    set_field(field(group(fields), COLUMNS)[1][0], ENCRYPTED, STRUCT, key)


def more_columns(fields: Fields) -> None:
    columns = field(group(fields), COLUMNS)[1]
    columns.append(columns[0])


def no_columns(fields: Fields) -> None:
    field(group(fields), COLUMNS)[1].clear()


def fewer_rows(fields: Fields) -> None:
    set_field(group(fields), ROWS, I64, 0)


def rows_below_zero(fields: Fields) -> None:
    set_field(group(fields), ROWS, I64, -3)
    set_field(group(fields, 1), ROWS, I64, 9)


def another_name(fields: Fields) -> None:
    """Of a column that is only copied; Arrow knows columns by their places."""
    set_field(chunks(fields)[1], PATH, LIST, [BINARY, [b"other"]])


def rows_moved(fields: Fields) -> None:
    """As many in all, which only the pages contradict."""
    set_field(group(fields), ROWS, I64, 4)
    set_field(group(fields, 1), ROWS, I64, 2)


def nested_without_end(fields: Fields) -> None:
    inner: Fields = []
    for _ in range(60):
        inner = [[1, STRUCT, inner]]
    set_field(fields, 20, STRUCT, inner)


BROKEN = [deep_levels, deep_repetition, bytes_of_numbers, encrypted, more_columns, no_columns, fewer_rows]
BROKEN += [rows_below_zero, rows_moved, unknown_codec, negative_codec, unknown_type, another_name]


def write(path: Path, change: Callable[[Fields], None] | None = None) -> None:
    rows = pa.table({"text": [f"text {row} of six that differ in a word" for row in range(6)], "score": list(range(6))})
    pq.write_table(rows, path, row_group_size=3)
    if change is not None:
        content = path.read_bytes()
        fields, start = footer(content)
        change(fields)
        path.write_bytes(with_footer(content[:start], fields))


def dedup(source: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, for some footers ended it."""
    command = [sys.executable, "-m", "gpulsh", "dedup", str(source), "-o", str(out), "--backend", "reference", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("change", BROKEN)
def test_a_footer_that_lies(change: Callable[[Fields], None], tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", change)
    ended = dedup(tmp_path / "a.parquet", tmp_path / "out")
    assert ended.returncode == 1 and "gpulsh: error: " in ended.stderr, ended.stderr
    assert "cannot be read" in ended.stderr.splitlines()[-1] and not (tmp_path / "out").exists()


def test_files_whose_footers_lie_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, change in enumerate(BROKEN):
        write(tmp_path / f"in/{number:02}.parquet", change)
    ended = dedup(tmp_path / "in", tmp_path / "out", "--on-error", "skip")
    assert ended.returncode == 0, ended.stderr
    rejected = pq.read_table(tmp_path / "out/rejected.parquet").to_pylist()
    assert {Path(each["file"]) for each in rejected} == set((tmp_path / "in").iterdir())
    assert all("cannot be read" in each["reason"] for each in rejected)


@pytest.mark.parametrize("change", [None, nested_without_end])
def test_a_footer_that_does_not(change: Callable[[Fields], None] | None, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", change)
    result = gpulsh.deduplicate_files(tmp_path / "a.parquet", tmp_path / "out", backend="reference")
    assert len(pq.read_table(result.data / "a.parquet")) == 6


def test_a_page_that_is_passed_over(tmp_path: Path) -> None:
    """Of a column that is only copied: Arrow takes a page of a kind that it does not know for none."""
    write(tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    fields, _ = footer(content)
    at = field(chunks(fields)[1], 11) or field(chunks(fields)[1], 9)
    header, _ = read_struct(content, at)
    end = at + field(chunks(fields)[1], 7)
    while at < end:
        header, body = read_struct(content, at)
        if field(header, 1) == 0:
            set_field(header, 1, I32, 9)
            new = write_struct(header)
            assert len(new) == body - at
            content = content[:at] + new + content[body:]
        at = body + field(header, 3)
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DamagedInputError, match=r"row group 0 has 0 rows and its footer says 3"):
        gpulsh.deduplicate_files(tmp_path / "a.parquet", tmp_path / "out", backend="reference")
