"""Files made to take long: the work grows with their size, whatever they hold. The limits are a tenth or less of what
work that grows with the square of the size takes, and ten times what was measured.
"""

import gzip
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import gpulsh
from benchmarks.corpora.many_parts import FILES
from gpulsh.compat.datasketch.lsh import optimal_bands
from gpulsh.compat.datasketch.lshensemble import optimal_partitions
from gpulsh.errors import InputError
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.warc_records import warc_records
from gpulsh.run.records.tables import DECISIONS, Decisions
from gpulsh.run.stages.write import read_kept
from tests.support.files import new_file


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def record(content: bytes = b"x", headers: bytes = b"") -> bytes:
    head = b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Type: text/plain\r\n" + headers
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content + b"\r\n\r\n"


def lying_records(length: int, count: int) -> bytes:
    return b"WARC/1.0\r\nContent-Length: %d\r\n\r\n" % length * count


def small_members(length: int, count: int) -> bytes:
    return gzip.compress(b"\r\n" + lying_records(length, 1), 1) * count


FEW, MANY = 1 << 16, 1 << 18

# name: (the file, compressed, records, broken stretches, seconds)
ARCHIVES: dict[str, tuple[Callable[[], bytes], bool, int, int, float]] = {
    "headers of one name": (lambda: record(headers=b"a:\r\n" * 60_000), False, 1, 0, 1),
    "a header of many lines": (lambda: record(headers=b"a: b\r\n" + b" c\r\n" * 60_000), False, 1, 0, 1),
    "line ends between records": (lambda: (record() + b"\r\n" * (1 << 23)) * 2, False, 2, 0, 3),
    "first lines alone": (lambda: b"WARC/1.0\r\n" * (16 * MANY), False, 0, 1, 2),
    "first lines alone, packed": (lambda: gzip.compress(b"WARC/1.0\r\n" * (16 * MANY), 1), True, 0, 1, 2),
    "first lines of no version": (lambda: b"WARC/0.17\r\n" * MANY, False, 0, 1, 5),
    "first lines without their end": (lambda: b"WARC/1.0\n" * MANY, False, 0, 1, 5),
    "headers cut short": (lambda: b"WARC/1.1\r\nContent-Length: 0\r\n" * (4 * MANY), False, 0, 1, 2),
    "headers without a length": (lambda: b"WARC/1.0\r\na: b\r\n\r\n" * MANY, False, 0, 1, 5),
    "lengths behind headers": (lambda: b"WARC/1.0\r\n\r\nContent-Length: 0\r\n" * FEW, False, 0, 1, 5),
    "first lines between records": (lambda: (b"WARC/1.0\r\n" * 1000 + record()) * 200, False, 200, 200, 5),
    "lengths beyond the file": (lambda: lying_records(1 << 40, 60_000), False, 0, 1, 5),
    "lengths within the file": (lambda: lying_records(4 << 20, 160_000), False, 0, 1, 15),
    "lengths beyond the file, packed": (lambda: gzip.compress(lying_records(1 << 40, 40_000)), True, 0, 1, 5),
    "lengths beyond members": (lambda: gzip.compress(lying_records(1 << 40, 1)) * 10_000, True, 0, 1, 5),
    "members of nothing": (lambda: gzip.compress(b"") * 200_000, True, 0, 0, 5),
    "small members in a record": (lambda: small_members(900_000, 20_000), True, 0, 1, 20),
    "small members with false sizes": (lambda: small_members(1 << 40, 6000), True, 0, 1, 20),
    "broken members": (lambda: (gzip.compress(b"WARC/1.0\r\n")[:-1] + b"x") * 10_000, True, 0, 1, 5),
    "broken members between": (lambda: (gzip.compress(b"a") + gzip.compress(record())) * 5000, True, 5000, 5000, 5),
}


@pytest.mark.parametrize(
    ("name", "checked"),
    [(name, checked) for name in ARCHIVES for checked in (False, True) if ARCHIVES[name][1] >= checked],
)
def test_hostile_archives_take_linear_time(name: str, checked: bool) -> None:
    make, compressed, records, broken, seconds = ARCHIVES[name]
    content = make()
    damaged: list[int] = []
    with limited_to(seconds):
        records_of = warc_records(io.BytesIO(content), compressed, lambda at, _: damaged.append(at), checked=checked)
        found = sum(1 for _ in records_of)
    assert (found, len(damaged)) == (records, broken)
    assert damaged == sorted(damaged)


ONE = b'{"text": "a"}'
BLANKS: dict[str, bytes] = {
    "newlines": b"\n" * (1 << 26),
    "carriage returns": b"\r\n" * (1 << 25),
    "spaces": b"       \n" * (1 << 23),
    "a line of spaces": b" " * (1 << 26),
}


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("name", BLANKS)
def test_blank_lines_take_linear_time(name: str, ending: str, tmp_path: Path) -> None:
    content = ONE + b"\n" + BLANKS[name] + b"\n" + ONE + b"\n{\n"
    pack = {"": bytes, ".gz": lambda data: gzip.compress(data, 1), ".zst": zstandard.compress}[ending]
    path = tmp_path / f"a.jsonl{ending}"
    path.write_bytes(pack(content))
    texts = FileTexts(find_files([str(path)]), Columns(text="text"))
    lines = content.count(b"\n")
    with limited_to(5), pytest.raises(InputError, match=f"line {lines} is not JSON"):
        list(texts.batches(1 << 20))
    path.write_bytes(pack(content[:-2]))
    (file,) = find_files([str(path)])
    with limited_to(5):
        format_of(file).write_kept(file, np.array([False, True]), new_file(tmp_path / "out"))
    kept = tmp_path / f"kept.jsonl{ending}"
    (tmp_path / "out").rename(kept)
    assert [len(batch) for batch in FileTexts(find_files([str(kept)]), Columns(text="text")).batches(100)] == [1]


@pytest.mark.parametrize("rows", [0, 1])
def test_many_row_groups_take_linear_time(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.io.formats.parquet.RUN_ROWS", 1)  # each is a part of its own
    table = pa.table({"text": pa.array(["a"] * rows, pa.string())})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as out:
        for _ in range(6000):
            out.write_table(table)
    texts = FileTexts(find_files([str(tmp_path / "a.parquet")]), Columns(text="text"), readers=2)
    with limited_to(10):
        assert sum(map(len, texts.batches(1 << 20))) == 6000 * rows
    texts = FileTexts(find_files([str(tmp_path / "a.parquet")]), Columns(text="text"))
    (*_, last) = texts.partitions(1)[-1].pieces
    with limited_to(10):
        for _ in range(1000):
            list(texts.read_rows(last, np.ones(rows, np.bool_)))


def test_many_files_of_a_partition_take_linear_time(tmp_path: Path) -> None:
    """Each file reads its own documents, not the decisions on all."""
    documents = 1 << 21
    every = np.arange(documents)
    first = np.where(every % 3 == 2, every - 1, every)
    same, none = np.ones(documents, np.float32), np.zeros(documents, np.int64)
    no_witness = np.zeros(documents, np.bool_)
    DECISIONS.write(tmp_path, 0, Decisions(every, first, same, first, no_witness, first == every, none, none, none))
    with limited_to(3):
        for start in range(0, documents, documents >> 10):
            found, kept = read_kept(tmp_path, 0, start, start + 6)
            assert found[~kept].tolist() == [number for number in range(start, start + 6) if number % 3 == 2]


def test_an_ensemble_of_many_sizes_is_cut_in_good_time() -> None:
    sizes = np.arange(1, 1501)
    with limited_to(2):
        assert len(optimal_partitions(sizes, 1 + sizes % 3, 16)) == 16


def test_the_bands_of_long_signatures_are_chosen_in_good_time() -> None:
    with limited_to(5):
        assert optimal_bands(0.8, 4096, 0.5, 0.5) == (163, 25)


# --- the work for each part of a file does not grow with their number, in lines of Python, not seconds ---


PARTS = 30
OURS = os.path.dirname(gpulsh.__file__)
MAX_GROWTH = 2.1  # 2 where the work is linear, 4 where it grows with the square
FEW_LINES = 10  # of a part: compiled loops take none, and other differences are chance


def lines_run(work: Callable[[], object]) -> int:
    """The number of lines of gpulsh that run; each turn of a loop counts."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if event == "call" and not frame.f_code.co_filename.startswith(OURS):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]
    return count


@pytest.mark.parametrize("name", FILES)
def test_work_doubles_with_the_parts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr("gpulsh.run.file_run.missing_requirement", lambda: "tested elsewhere")
    make, ending, _ = FILES[name]
    counts = []
    for parts in (1, PARTS, 2 * PARTS, 4 * PARTS):  # the first one warms up
        path, out = tmp_path / f"{parts}{ending}", tmp_path / f"out-{parts}"
        make(path, parts)
        run = lambda path=path, out=out: gpulsh.deduplicate_files(path, out, backend="cpu", threads=1)  # noqa: E731
        counts.append(lines_run(run))
    _, one, two, four = counts
    assert four - two <= MAX_GROWTH * (two - one) + FEW_LINES * PARTS
