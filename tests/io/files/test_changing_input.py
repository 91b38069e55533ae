"""Input that changes while a run goes: one clear error that names the file.

Every format, at every boundary of stages that read it. All files have one size and one time, so that one put in place
of another shows by its inode.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import ChangedInputError, InputError
from gpulsh.run import files as local
from gpulsh.run.engines.local import InProcess
from tests.crash.test_resume import results

WRITTEN = 1_600_000_000_000_000_000
ROWS = 12
BANDING: dict[str, Any] = {"num_perm": 12, "bands": 6, "rows": 2}
NAMES = {"parquet": "parquet", "arrow": "arrow", "jsonl.gz": "jsonl.gz", "wet.gz": "warc.wet.gz", "text": "txt"}
STAGES = ["sign", "gather", "write", "commit"]

Texts = list[str]


def page(source: random.Random) -> list[str]:
    return [f"w{source.randrange(10_000):04d}" for _ in range(20)]


def pages(seed: int, shared: int = 1) -> Texts:
    """Pages of one length: of the same `shared` a near-copy and a copy in each list, and others."""
    own, common = random.Random(f"own {seed}"), random.Random(f"shared {shared}")
    found = [page(own) for _ in range(ROWS)]
    near, same = page(common), page(common)
    near[0] = f"x{seed:04d}"  # an end is in one shingle alone
    found[1 + seed % 5], found[7 + seed % 5] = near, same
    return [" ".join(words) for words in found]


def content(kind: str, texts: Texts, first: int) -> bytes:
    """A file of so many rows whose size follows from how many they are."""
    ids = [f"id{first + row:04d}" for row in range(len(texts))]
    table = pa.table({"text": texts, "id": ids})
    sink = pa.BufferOutputStream()
    if kind == "parquet":
        options: dict[str, Any] = {"use_dictionary": False, "write_statistics": False}
        pq.write_table(table, sink, compression="none", row_group_size=5, **options)
    elif kind == "arrow":
        with pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table, 5)
    elif kind == "jsonl.gz":
        return gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist()), 0, mtime=0)
    elif kind == "wet.gz":
        records = [
            f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <{name}>\r\nContent-Length: {len(text)}\r\n\r\n"
            f"{text}\r\n\r\n".encode()
            for name, text in zip(ids, texts, strict=True)
        ]
        return b"".join(gzip.compress(record, 0, mtime=0) for record in records)
    else:
        return "\n".join(texts).encode()
    return bytes(sink.getvalue())


class Inputs:
    """Two files, or in the case of text six of one document."""

    def __init__(self, folder: Path, kind: str) -> None:
        folder.mkdir()
        self.kind, self.folder = kind, folder
        lists = [pages(0), pages(1)]
        if kind == "text":
            lists = [[lists[number % 2][(1 + number % 2, 7 + number % 2, 0)[number // 2]]] for number in range(6)]
        self.texts = {}
        for number, texts in enumerate(lists):
            path = folder / f"{'abcdef'[number]}.{NAMES[kind]}"
            self.texts[path] = texts
            path.write_bytes(content(kind, texts, 100 * number))
            self.set_back(path)
        self.first = number * 100
        # A later one: what is in it is dropped for what is in those before.
        self.changed = path
        self.other = next(iter(self.texts))

    def set_back(self, path: Path) -> None:
        os.utime(path, ns=(WRITTEN, WRITTEN))

    def put(self, texts: Texts) -> None:
        """Write over the file, in place."""
        with open(self.changed, "r+b") as file:
            file.write(content(self.kind, texts, self.first))
            file.truncate()

    def edited(self) -> Texts:
        """Of the same size, unlike all others."""
        return pages(7, shared=7)[: len(self.texts[self.changed])]

    def reordered(self) -> Texts:
        texts = self.texts[self.changed]
        return texts[::-1] if len(texts) > 1 else [" ".join(texts[0].split()[::-1])]


def replace(inputs: Inputs) -> None:
    beside = inputs.folder / "_new"
    beside.write_bytes(content(inputs.kind, inputs.edited(), inputs.first))
    os.replace(beside, inputs.changed)


def edit(inputs: Inputs) -> None:
    inputs.put(inputs.edited())


def truncate(inputs: Inputs) -> None:
    os.truncate(inputs.changed, inputs.changed.stat().st_size // 2)


def extend(inputs: Inputs) -> None:
    inputs.put([*inputs.texts[inputs.changed], *inputs.edited()])


def remove(inputs: Inputs) -> None:
    inputs.changed.unlink()


def swap(inputs: Inputs) -> None:
    beside = inputs.folder / "_new"
    os.rename(inputs.changed, beside)
    os.rename(inputs.other, inputs.changed)
    os.rename(beside, inputs.other)


def reorder(inputs: Inputs) -> None:
    inputs.put(inputs.reordered())


Change = Callable[[Inputs], None]
CHANGES: list[Change] = [replace, edit, truncate, extend, remove, swap, reorder]


@contextmanager
def changed_before(stage: str, change: Callable[[], None]) -> Iterator[None]:
    """The change is made when that stage begins, or when all is ready to be committed."""
    run, write_report = InProcess.run, local.write_report

    def run_changed(self: InProcess, of: Any) -> Any:
        if of.row.name == stage:
            change()
        return run(self, of)

    def write_report_changed(*arguments: Any) -> None:
        if stage == "commit":
            change()
        write_report(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InProcess, "run", run_changed)
        patch.setattr(local, "write_report", write_report_changed)
        patch.setattr(local, "missing", lambda: "tested elsewhere")
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def run(inputs: Inputs, out: Path, **options: Any) -> dict[str, bytes]:
    options = {"id_column": None if inputs.kind in ("text", "wet.gz") else "id", **options}
    shingling = gpulsh.Shingling(size=2)
    given = {"backend": "cpu", "threads": 1, "shingling": shingling, "threshold": 0.7, **BANDING, **options}
    gpulsh.deduplicate_files(inputs.folder, out, **given)
    return results(out)


BEFORE: dict[tuple[str, str], dict[str, bytes]] = {}  # results of what nothing happened to; names are relative


def judge(kind: str, stage: str, change: Change, **options: Any) -> None:
    """Fails unless the run ends in an error that names the file."""
    inputs = Inputs(Path("in"), kind)
    key = kind, repr(options)
    if key not in BEFORE:
        with changed_before("never", lambda: None):
            BEFORE[key] = run(inputs, Path("before"), **options)
        assert len(pq.read_table("before/duplicates.parquet")) >= 2
    try:
        with changed_before(stage, lambda: change(inputs)):
            run(inputs, Path("out"), **options)
    except InputError as error:
        told = str(error)
        assert isinstance(error, ChangedInputError), told
        named = {str(inputs.changed), *([str(inputs.other)] if change is swap else [])}
        assert told.split(": ", 1)[0] in named and "\n" not in told and len(told) < 400
        assert "bring it back as it was, or begin again when nothing writes to it" in told
        assert not Path("out").exists()
        return
    raise AssertionError("the run ended as if nothing had happened")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# Every change at every stage, and each of them with every format in turn.
TURNS = [
    (list(NAMES)[(place + turn) % len(NAMES)], stage, change)
    for place, stage in enumerate(STAGES)
    for turn, change in enumerate(CHANGES)
]


@pytest.mark.parametrize(("kind", "stage", "change"), TURNS, ids=lambda of: getattr(of, "__name__", of))
def test_a_change_before_a_stage(kind: str, stage: str, change: Change) -> None:
    judge(kind, stage, change)


@pytest.mark.parametrize(("kind", "write"), [("parquet", "data"), ("arrow", "duplicates"), ("jsonl.gz", "data")])
def test_ids_are_those_of_the_rows(kind: str, write: str) -> None:
    """They are read by themselves."""
    judge(kind, "collect", reorder, write=write)
