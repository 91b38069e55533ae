"""Input that changes while a run goes: one clear error that names the file, at every boundary of stages that read it.

All files have one time, so that one put in place of another of its size shows by its inode. What else a change may be
is in the last two tests.
"""

import os
import random
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import ChangedInputError
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files
from gpulsh.io.stamps import Stamps
from gpulsh.run import file_run
from gpulsh.run.engines.local import LocalRunner
from tests.crash.test_resume import results

WRITTEN = 1_600_000_000_000_000_000
BANDING: dict[str, Any] = {"num_perm": 12, "bands": 6, "rows": 2}


def pages(seed: int) -> list[str]:
    """Ten pages of one length, and two that all lists share: one exactly, one nearly."""
    own, common = random.Random(f"own {seed}"), random.Random("shared")
    found = [[f"w{source.randrange(10_000):04d}" for _ in range(20)] for source in [own] * 10 + [common] * 2]
    found[10][0] = f"x{seed:04d}"  # an end is in one shingle only
    return [" ".join(words) for words in found]


def write(path: Path, texts: list[str]) -> None:
    """Write a file whose size depends only on the number of texts."""
    if path.suffix == ".parquet":
        table = pa.table({"text": texts, "id": [f"id{row:04d}" for row in range(len(texts))]})
        options: dict[str, Any] = {"use_dictionary": False, "write_statistics": False}
        pq.write_table(table, path, compression="none", row_group_size=5, **options)
    else:
        path.write_text("\n".join(texts))
    os.utime(path, ns=(WRITTEN, WRITTEN))


def replace(path: Path) -> None:
    beside = path.with_name(f"_new{path.suffix}")
    write(beside, pages(7))
    os.replace(beside, path)


def edit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(50)
        file.write(b"edited")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


Change = Callable[[Path], None]
CHANGES: list[Change] = [replace, edit, truncate, Path.unlink]


@contextmanager
def changed_before(stage: str, change: Callable[[], None]) -> Iterator[None]:
    """Make the change when that stage begins, or just before the commit."""
    run, write_report = LocalRunner.run, file_run.write_report

    def run_changed(self: LocalRunner, of: Any) -> Any:
        if of.row.name == stage:
            change()
        return run(self, of)

    def write_report_changed(*arguments: Any) -> None:
        if stage == "commit":
            change()
        write_report(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRunner, "run", run_changed)
        patch.setattr(file_run, "write_report", write_report_changed)
        patch.setattr("gpulsh.run.file_run.missing_requirement", lambda: "tested elsewhere")
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.mark.parametrize(
    ("kind", "stage", "change", "options"),
    [
        *(
            (("parquet", "txt")[(place + turn) % 2], stage, change, {})
            for place, stage in enumerate(["sign", "gather", "write", "commit"])
            for turn, change in enumerate(CHANGES)
        ),
        ("parquet", "collect", replace, {"id_column": "id"}),  # ids are read by themselves
        ("parquet", "collect", edit, {"id_column": "id", "write": "duplicates"}),
    ],
)
def test_changed_input_is_named(kind: str, stage: str, change: Change, options: dict[str, Any], folder: Path) -> None:
    os.mkdir("in")
    for name in "ab":
        write(Path(f"in/{name}.{kind}"), pages(ord(name)))
    changed = Path(f"in/b.{kind}")
    given = {"backend": "cpu", "threads": 1, "shingling": gpulsh.Shingling(size=2), "threshold": 0.7, **BANDING}
    given |= {"lines": True, **options} if kind == "txt" else options

    def run(out: str) -> dict[str, bytes]:
        gpulsh.deduplicate_files("in", out, **given)
        return results(Path(out))

    with changed_before("never", lambda: None):
        assert run("before") and len(pq.read_table("before/duplicates.parquet")) == 2
    with changed_before(stage, lambda: change(changed)), pytest.raises(ChangedInputError) as caught:
        run("out")
    message = str(caught.value)
    assert message.startswith(f"{changed}: ") and "\n" not in message and len(message) < 400
    assert "restore it, or start again when nothing writes to it" in message
    assert not Path("out").exists()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(b"some text")
    return path


def test_stamps_notice_changes_of_size_time_and_file(path: Path) -> None:
    stamps = Stamps.of(find_files([str(path)]))
    stamps.check()
    before = path.stat()
    path.write_bytes(b"another text")
    with pytest.raises(ChangedInputError, match="it had 9 bytes and has 12; restore it, or start again"):
        stamps.check()
    path.write_bytes(b"same size")
    with pytest.raises(ChangedInputError, match="it was written to"):
        stamps.check()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    stamps.check()  # a change that sets size and time back is not noticed
    (path.parent / "new").write_bytes(b"other one")
    os.utime(path.parent / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(path.parent / "new", path)
    with pytest.raises(ChangedInputError, match="it was written to"):
        stamps.check()
    path.unlink()
    with pytest.raises(ChangedInputError, match="is not there any more"):
        stamps.check()


def test_stamps_notice_another_text_in_an_archive(folder: Path) -> None:
    """Its size and time of change are the same, as in archives of programs that write no times."""

    def found(letter: str) -> list[File]:
        with zipfile.ZipFile("a.zip", "w") as archive:
            archive.writestr(zipfile.ZipInfo("a.jsonl"), f'{{"text": "{letter}"}}')
        return find_files(["zip://::a.zip"])

    stamps = Stamps.of(found("a"))
    Stamps(tuple(found("a")), stamps.known).check()
    with pytest.raises(ChangedInputError, match="was written to"):
        Stamps(tuple(found("b")), stamps.known).check()


def test_a_changed_input_hides_the_error_it_causes(path: Path) -> None:
    stamps = Stamps.of(find_files([str(path)]))
    with pytest.raises(KeyError), stamps.unchanged([0]):
        raise KeyError("of its own")
    with pytest.raises(ChangedInputError, match="had 9 bytes"), stamps.unchanged([0]):
        path.write_bytes(b"another text")
        raise KeyError("whatever a reader meets in it")
    entered = False
    with pytest.raises(ChangedInputError, match="had 9 bytes"), stamps.unchanged([0]):
        entered = True
    assert not entered
