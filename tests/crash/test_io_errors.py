"""A full disk or an unreadable file gives one line that names the file; the state stays intact, and the run resumes."""

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.budget import TaskSizes
from gpulsh.errors import InputError, OutputError
from gpulsh.io.file import File, reading
from gpulsh.io.formats import parquet
from gpulsh.run import driver
from tests.crash.test_resume import fail_at, outlive_an_error, results, write_inputs
from tests.support.mortal import Disk
from tests.support.runs import SOAK

OPTIONS: dict[str, Any] = {"backend": "cpu", "threads": 1, "keep": "score", "id_column": "score"}
ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO, errno.EDQUOT, errno.EROFS)
WRITTEN = {"write-000000": "a.parquet", "write-000001": "b.jsonl", "write-000002": "c.arrow"}
PART = re.compile(r"\.[0-9a-f]{32}\.part$")  # of the name of a file that is being written


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files for a run in several partitions, ranges and groups, whose state outlives an error."""
    with pytest.MonkeyPatch.context() as patch:
        outlive_an_error(patch, TaskSizes(memory=1 << 30, partition=15000, digests=3000, group=25000))
        yield write_inputs(tmp_path_factory.mktemp("given") / "in")


@pytest.fixture(scope="module")
def wanted(inputs: Path) -> dict[str, bytes]:
    gpulsh.deduplicate_files(inputs, inputs.parent / "whole", **OPTIONS)
    return results(inputs.parent / "whole")


def message_and_resume(given: Path, wanted: dict[str, bytes], out: Path, refusing: Any, number: int) -> str:
    """The message of a run that meets this error and then resumes to its end."""
    with refusing, pytest.raises(OutputError) as caught:
        gpulsh.deduplicate_files(given, out, **OPTIONS)
    message = str(caught.value)
    assert message.startswith(f"{out}/") and message.endswith(f"cannot be written: {os.strerror(number)}"), message
    assert "\n" not in message
    done = (out / "_work/manifest.jsonl").read_bytes().count(b"\n")
    resumed = gpulsh.deduplicate_files(given, out, resume=True, **OPTIONS).funnel["resumed"]
    assert results(out) == wanted and not (out / "_work").exists() and bool(resumed) == (done > 1)
    return message


def test_a_run_resumes_after_a_failed_system_call(inputs: Path, wanted: dict[str, bytes], tmp_path: Path) -> None:
    """The first call fails that opens, writes, syncs or renames each kind of file once the run has begun."""
    counted = Disk(str(tmp_path / "counted"), None, errno.EIO)
    with counted.patched():
        gpulsh.deduplicate_files(inputs, tmp_path / "counted", **OPTIONS)
    begun = next(at for at, call in enumerate(counted.made) if "sign-" in call)
    first: dict[str, int] = {}
    for at, call in enumerate(counted.made[begun:], begun + 1):
        if not re.match("unlink|rmdir|fsync counted", call):  # leftover files do no harm; OUT has another name
            first.setdefault(re.sub(r"-\d{6}", "", PART.sub("", call)), at)
    assert len(first) > 60
    for call, at in list(first.items())[:: 1 if SOAK else 7]:
        name, number, out = PART.sub("", counted.made[at - 1].partition(" ")[2]), ERRORS[at % 5], tmp_path / f"{at}"
        message = message_and_resume(inputs, wanted, out, Disk(str(out), at, number).patched(), number)
        assert f"/{name}" in message or f"/data/{WRITTEN.get(name)}: " in message, call


@contextmanager
def failing_call(function: str, number: int | None, error: OSError) -> Iterator[list[str]]:
    with pytest.MonkeyPatch.context() as patch:
        yield fail_at(patch, number, error, (function,))


@pytest.mark.parametrize(("function", "path"), [("pwrite", None), ("mkdir", "_work/replaced")])
def test_a_failed_write_of_texts_or_folders_is_named(
    inputs: Path, wanted: dict[str, bytes], tmp_path: Path, function: str, path: str | None
) -> None:
    """The last such write fails; an error of a handle has no name."""
    out = tmp_path / "out"
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *([f"{out}/{path}"] if path else []))
    with failing_call(function, None, error) as calls:
        gpulsh.deduplicate_files(inputs, tmp_path / "counted", **OPTIONS)
    message = message_and_resume(inputs, wanted, out, failing_call(function, len(calls), error), errno.ENOSPC)
    assert (path or "-texts.bin") in message


INPUTS = [("a.parquet", errno.EACCES), ("b.jsonl", errno.EIO), ("c.arrow", errno.EACCES)] * 2
TASKS = ("sign_partition", "gather_texts", "collect_decisions", "write_files")
MET = [(task, *INPUTS[at + more]) for more in ((1, 2) if SOAK else (1,)) for at, task in enumerate(TASKS)]


@pytest.mark.parametrize(("task", "name", "number"), MET)
def test_an_input_that_becomes_unreadable_is_named(
    inputs: Path, wanted: dict[str, bytes], tmp_path: Path, task: str, name: str, number: int
) -> None:
    """It becomes unreadable at each task that reads it."""
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        unreadable_at(patch, task, inputs / name, OSError(number, os.strerror(number), str(inputs / name)))
        with pytest.raises(InputError) as caught:
            gpulsh.deduplicate_files(inputs, out, **OPTIONS)
    assert str(caught.value) == f"{inputs / name}: cannot be read: {os.strerror(number)}"
    done = (out / "_work/manifest.jsonl").read_text()
    assert task == "sign_partition" or '"sign-000001"' in done
    gpulsh.deduplicate_files(inputs, out, resume=True, **OPTIONS)
    assert results(out) == wanted


@contextmanager
def parquet_opened(file: File) -> Iterator[parquet._Source]:
    """Open Parquet through `file.open`, which the test breaks."""
    with reading(file), file.open() as source:
        opened = pq.ParquetFile(source)
        yield parquet._Source(file, opened, parquet._Footer.of(opened.metadata))


def unreadable_at(patch: pytest.MonkeyPatch, task: str, path: Path, error: OSError) -> None:
    """From the first task of that kind on, the file opens but cannot be read."""

    class Broken(io.BytesIO):
        def read(self, *_: Any) -> Any:
            raise error

        readinto = read

    begun: list[str] = []
    work, opened, os_file = getattr(driver, task), File.open, pa.OSFile

    def begin(*arguments: Any) -> Any:
        begun.append(task)
        return work(*arguments)

    def open_or_not(file: File, buffering: int = -1) -> Any:
        return Broken(b"x" * 1000) if begun and file.path == str(path) else opened(file, buffering)

    def os_file_or_not(name: Any, *mode: str) -> Any:
        if begun and os.fsdecode(name) == str(path):
            raise error
        return os_file(name, *mode)

    patch.setattr(pa, "OSFile", os_file_or_not)
    patch.setattr(driver, task, begin)
    patch.setattr(File, "open", open_or_not)
    patch.setattr("gpulsh.io.formats.parquet._opened", parquet_opened)
