"""Work files that somebody changed and whose checksums they made right: one clear error, and the run's part is kept."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gpulsh
from gpulsh.errors import GpulshError, OutputError
from tests.crash.test_resume import interrupted, results, write_inputs

OPTIONS: dict[str, Any] = {"backend": "cpu", "threads": 1, "keep": "score", "id_column": "score"}
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was interrupted when all was done but writing the evidence."""
    monkeypatch.setattr("gpulsh.run.output.folder.worth_resuming", lambda manifest: True)
    monkeypatch.setattr("gpulsh.run.files.missing", lambda: "tested elsewhere")
    write_inputs(tmp_path / "in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.driver.evidence", interrupted)
        with pytest.raises(KeyboardInterrupt):
            gpulsh.deduplicate_files(tmp_path / "in", tmp_path / "out", **OPTIONS)
    return tmp_path / "out"


def mend(work: Path, entries: list[dict[str, Any]]) -> None:
    for entry in entries[1:]:
        for name in entry["files"]:
            content = (work / name).read_bytes()
            entry["files"][name] = {"size": len(content), "crc32": zlib.crc32(content)}
    lines = [json.dumps(entry, sort_keys=True).encode() for entry in entries]
    (work / "manifest.jsonl").write_bytes(b"".join(b"%08x %s\n" % (zlib.crc32(line), line) for line in lines))


def steps(work: Path) -> list[dict[str, Any]]:
    return [json.loads(line.partition(b" ")[2]) for line in (work / "manifest.jsonl").read_bytes().splitlines()]


def until(entries: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The steps as they were when the stage that made a file had ended, so that those after it read the file."""
    stages = [entry.get("step", "").partition("-")[0] for entry in entries]
    made_by = next(stage for entry, stage in zip(entries[1:], stages[1:], strict=True) if name in entry["files"])
    return entries[: len(stages) - stages[::-1].index(made_by)]


def gone(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([rows.column_names[-1]])


def fewer(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def far(rows: pa.Table) -> pa.Table:
    """Every integer as far as it can be."""
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_integer(column.type):
            most = (1 << (column.type.bit_width - pa.types.is_signed_integer(column.type))) - 1
            column = pa.chunked_array([pa.array([most] * len(rows), column.type)])
        columns[name] = column
    return pa.table(columns)


def negative(rows: pa.Table) -> pa.Table:
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_signed_integer(column.type):
            column = pa.chunked_array(
                [pa.array([-(1 << 40) % (1 << 63) * -1] * len(rows), pa.int64()).cast(column.type, safe=False)]
            )
        columns[name] = column
    return pa.table(columns)


def strings(rows: pa.Table) -> pa.Table:
    return pa.table({name: pa.array(["a"] * len(rows)) for name in rows.column_names})


def nulls(rows: pa.Table) -> pa.Table:
    return pa.table({field.name: pa.nulls(len(rows), field.type) for field in rows.schema})


def fractions(rows: pa.Table) -> pa.Table:
    return cast(rows, pa.float64())


def signs(rows: pa.Table) -> pa.Table:
    return cast(rows, pa.int64())


def cast(rows: pa.Table, kind: Any) -> pa.Table:
    """Integers as numbers of a kind that no run writes there."""
    return pa.table(
        {
            name: rows[name].cast(kind, safe=False) if pa.types.is_integer(rows[name].type) else rows[name]
            for name in rows.column_names
        }
    )


@pytest.mark.parametrize("change", [gone, fewer, far, negative, strings, nulls, fractions, signs])
def test_other_content_of_each_kind_of_file(change: Change, out: Path, tmp_path: Path) -> None:
    """Whatever it leads to, it ends in an error that gpulsh raises or in results, never in a defect or a death."""
    work, before = out / "_work", tmp_path / "before"
    out.rename(before)
    names = sorted(path.name for path in (before / "_work").glob("*.arrow"))
    kinds = {name.rpartition("-")[2] + name.partition("-")[0]: name for name in names}
    for name in kinds.values():
        rows = pa.ipc.open_file((before / "_work" / name).read_bytes()).read_all()
        if rows.num_rows == 0 or rows.num_columns == 0:
            continue
        shutil.copytree(before, out, symlinks=True)
        changed = change(rows).combine_chunks()
        with pa.ipc.new_file(str(work / name), changed.schema) as sink:
            sink.write_table(changed)
        mend(work, until(steps(work), name))
        try:
            gpulsh.deduplicate_files(tmp_path / "in", out, resume=True, **OPTIONS)
        except GpulshError as error:
            assert not isinstance(error, OutputError) or "begin again with overwrite=True" in str(error)
            with pytest.raises(OutputError):
                gpulsh.deduplicate_files(tmp_path / "in", out, **OPTIONS)
        shutil.rmtree(out)
    shutil.copytree(before, out, symlinks=True)
    gpulsh.deduplicate_files(tmp_path / "in", out, overwrite=True, **OPTIONS)
    assert not work.exists() and results(out)


@pytest.mark.parametrize("facts", [{}, {"rows": "many"}, {"bytes": []}, {"documents": {"a": 1}}, {"amount": None}])
def test_other_facts(facts: dict[str, Any], out: Path, tmp_path: Path) -> None:
    entries = steps(out / "_work")
    for entry in entries[1:]:
        entry["facts"] = facts
    mend(out / "_work", entries)
    with pytest.raises(GpulshError, match="begin again with overwrite=True"):
        gpulsh.deduplicate_files(tmp_path / "in", out, resume=True, **OPTIONS)


@pytest.mark.parametrize("name", ["groups", "shares"])
def test_more_groups_than_there_can_be(name: str, out: Path, tmp_path: Path) -> None:
    """As many tasks would be made of them."""
    entries = steps(out / "_work")
    for entry in entries[1:]:
        if name in entry["facts"]:
            entry["facts"][name] = 10**12
    mend(out / "_work", entries)
    with pytest.raises(GpulshError, match="holds less than its step says; begin again with overwrite=True"):
        gpulsh.deduplicate_files(tmp_path / "in", out, resume=True, **OPTIONS)


@pytest.mark.parametrize("report", [None, {}, {"gpulsh": "0.1.0", "outputs": ["data/nowhere.parquet"]}], ids=str)
def test_the_mark_of_a_commit_whose_results_are_nowhere(report: object, out: Path, tmp_path: Path) -> None:
    """The work folder is removed when results are in place, and at no other time."""
    if report is not None:
        (out / "_work" / "report.json").write_text(json.dumps(report))
    commit = {"step": "commit", "files": {}, "facts": {"replaced": ["report.json"]}}
    mend(out / "_work", [*steps(out / "_work"), commit])
    held = sorted(path.name for path in (out / "_work").iterdir())
    with pytest.raises(OutputError, match=r"_work: holds the mark of a commit .* begin again with overwrite=True"):
        gpulsh.deduplicate_files(tmp_path / "in", out, resume=True, **OPTIONS)
    assert sorted(path.name for path in (out / "_work").iterdir()) == held


def test_a_defect_of_a_run_that_is_new_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: Any) -> None:
        raise KeyError("tokens")

    write_inputs(tmp_path / "in")
    monkeypatch.setattr("gpulsh.run.driver.evidence", defect)
    for resume in (False, True):
        with pytest.raises(KeyError, match="tokens"):
            gpulsh.deduplicate_files(tmp_path / "in", tmp_path / "new", resume=resume, **OPTIONS)
