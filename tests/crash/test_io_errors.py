"""A full disk, a file that may not be read: one line that names the file, the state intact, and the run goes on."""

import builtins
import errno
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.budget import Cut
from gpulsh.errors import InputError, OutputError
from gpulsh.io.file import File, reading
from gpulsh.io.formats import parquet
from gpulsh.run import driver
from tests.crash.test_resume import results, write_inputs
from tests.support.runs import SOAK

OPTIONS: dict[str, Any] = {"backend": "cpu", "threads": 2, "keep": "score", "id_column": "score"}
CUT = Cut(memory=1 << 30, partition=15000, digests=3000, group=25000)

# What fails, at which file, with which error; and the file that the message names.
FAILURES = [
    ("open", "sign-000001-digests.arrow", errno.EACCES),
    ("open", "manifest.jsonl", errno.EACCES),
    ("write", "connect-members.arrow", errno.EDQUOT),
    ("write", "route-copies-000000-copies-routed.arrow", errno.ENOSPC),
    ("write", "write-000000", errno.ENOSPC),
    ("write", "duplicates.parquet", errno.ENOSPC),
    ("write", "manifest.jsonl", errno.ENOSPC),
    ("pwrite", "gather-000000-texts.bin", errno.ENOSPC),
    ("fsync", "data", errno.EIO),
    ("replace", "write-000000", errno.EACCES),
    ("mkdir", "replaced", errno.EACCES),
]
MORE_FAILURES = [
    ("open", "gather-000000-texts.bin", errno.EACCES),
    ("open", "duplicates.parquet", errno.EIO),
    ("open", "write-000001", errno.EROFS),
    ("write", "collect-000000-ids0.arrow", errno.EIO),
    ("write", "write-000002", errno.EIO),
    ("rename", "duplicates.parquet", errno.EACCES),
    ("write", "sign-000000-digests.arrow", errno.ENOSPC),
    ("write", "sign-000001-documents.arrow", errno.ENOSPC),
    ("write", "copies-000000-copies.arrow", errno.EIO),
    ("write", "collide-000001-pairs.arrow", errno.ENOSPC),
    ("write", "gather-000001-places.arrow", errno.ENOSPC),
    ("write", "verify-000000-decided.arrow", errno.ENOSPC),
    ("write", "write-000001", errno.ENOSPC),
    ("fsync", "sign-000001-exact.arrow", errno.EIO),
    ("fsync", "write-000002", errno.ENOSPC),
    ("fsync", "manifest.jsonl", errno.EIO),
    ("replace", "collide-000000-memberships.arrow", errno.EIO),
    ("mkdir", "data", errno.ENOSPC),
]

WRITTEN = {"write-000000": "a.parquet", "write-000001": "b.jsonl", "write-000002": "c.arrow"}


class Full(io.FileIO):
    def __init__(self, path: str, mode: str, number: int) -> None:
        super().__init__(path, mode)
        self._error = OSError(number, os.strerror(number))
        self._room = 40

    def write(self, data: Any) -> int:
        if not self._room:
            raise self._error
        written = super().write(memoryview(data)[: self._room])
        self._room -= written
        return written


def fails(patch: pytest.MonkeyPatch, what: str, name: str, number: int, calls: int = 1) -> None:
    """From the `calls`th call on, the function fails with this error at the file `name`, or what is to become it."""
    left = [calls]
    meant = re.compile(rf"/{re.escape(name)}(\.[0-9a-f]{{32}}\.part)?$")

    def is_it(path: Any) -> bool:
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        found = meant.search(os.fspath(path)) is not None
        left[0] -= found
        return found and left[0] <= 0

    def opened(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if set(mode) & set("wxa+") and not isinstance(path, int) and is_it(path):
            if what == "open":
                raise OSError(number, os.strerror(number), os.fspath(path))
            full = Full(os.fspath(path), mode.replace("b", ""), number)
            return io.BufferedRandom(full) if "+" in mode else io.BufferedWriter(full)
        return plain(path, mode, *args, **options)

    if what in ("open", "write"):
        plain = builtins.open
        patch.setattr(builtins, "open", opened)
        return
    function: Callable[..., Any] = getattr(os, what)

    def failing(path: Any, *args: Any, **options: Any) -> Any:
        if is_it(path):
            raise OSError(number, os.strerror(number), None if isinstance(path, int) else os.fspath(path))
        return function(path, *args, **options)

    patch.setattr(os, what, failing)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files for a run in several partitions, ranges and groups, whose state outlives an error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.file_run.cut", lambda memory, sizes: CUT)
        patch.setattr("gpulsh.run.files.missing", lambda: "tested elsewhere")
        patch.setattr("gpulsh.run.output.folder.worth_resuming", lambda manifest: True)
        patch.setattr(os, "fsync", lambda handle: None)
        yield write_inputs(tmp_path_factory.mktemp("given") / "in")


@pytest.fixture(scope="module")
def wanted(given: Path) -> dict[str, bytes]:
    gpulsh.deduplicate_files(given, given.parent / "whole", **OPTIONS)
    return results(given.parent / "whole")


@pytest.mark.parametrize(("what", "name", "number"), FAILURES + (MORE_FAILURES if SOAK else []))
def test_a_failure_is_named_and_the_run_goes_on(
    given: Path, wanted: dict[str, bytes], tmp_path: Path, what: str, name: str, number: int
) -> None:
    out = tmp_path / "out"
    calls = 4 if name == "manifest.jsonl" else 1
    with pytest.MonkeyPatch.context() as patch:
        fails(patch, what, name, number, calls)
        with pytest.raises(OutputError) as told:
            gpulsh.deduplicate_files(given, out, **OPTIONS)
    message = str(told.value)
    assert message.endswith(f"cannot be written: {os.strerror(number)}") and "\n" not in message
    assert f"/{name}" in message or f"/data/{WRITTEN[name]}: " in message
    done = (out / "_work/manifest.jsonl").read_bytes()
    gpulsh.deduplicate_files(given, out, resume=True, **OPTIONS)
    assert results(out) == wanted and not (out / "_work").exists()
    assert done.count(b"\n") > 1 or "sign-000000" in name


INPUTS = (("a.parquet", errno.EACCES), ("b.jsonl", errno.EIO), ("c.arrow", errno.EACCES))
STAGES = [
    (stage, *INPUTS[(turn + more) % 3])
    for more in ((1, 2) if SOAK else (1,))
    for turn, stage in enumerate(("sign", "gather", "collect", "write"))
]


@pytest.mark.parametrize(("stage", "name", "number"), STAGES)
def test_an_input_that_cannot_be_read_any_more(
    given: Path, wanted: dict[str, bytes], tmp_path: Path, stage: str, name: str, number: int
) -> None:
    """At each stage that reads it."""
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        unreadable_at(patch, stage, given / name, OSError(number, os.strerror(number), str(given / name)))
        with pytest.raises(InputError) as told:
            gpulsh.deduplicate_files(given, out, **OPTIONS)
    assert str(told.value) == f"{given / name}: cannot be read: {os.strerror(number)}"
    done = (out / "_work/manifest.jsonl").read_text()
    assert stage == "sign" or '"sign-000001"' in done
    gpulsh.deduplicate_files(given, out, resume=True, **OPTIONS)
    assert results(out) == wanted


@contextmanager
def parquet_opened(file: File) -> Iterator[parquet._Source]:
    """By its own `open`, which breaks."""
    with reading(file), file.open() as source:
        yield parquet._Source(file, pq.ParquetFile(source))


def unreadable_at(patch: pytest.MonkeyPatch, stage: str, path: Path, error: OSError) -> None:
    """From the first task of that stage on the file can be opened, but not be read."""

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise error

        def readinto(self, buffer: Any) -> int:
            raise error

    begun: list[str] = []
    task = getattr(driver, stage)
    opened = File.open

    def begin(*arguments: Any) -> Any:
        begun.append(stage)
        return task(*arguments)

    def open_or_not(file: File, buffering: int = -1) -> Any:
        return Broken(b"x" * 1000) if begun and file.path == str(path) else opened(file, buffering)

    def os_file_or_not(name: Any, *mode: str) -> Any:
        if begun and os.fsdecode(name) == str(path):
            raise error
        return os_file(name, *mode)

    os_file = pa.OSFile
    patch.setattr(pa, "OSFile", os_file_or_not)
    patch.setattr(driver, stage, begin)
    patch.setattr(File, "open", open_or_not)
    patch.setattr("gpulsh.io.formats.parquet._opened", parquet_opened)
