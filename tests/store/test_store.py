"""Files that exist whole or not at all, and the detection of damaged ones."""

import errno
import fcntl
import mmap
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpulsh
from gpulsh.errors import DamagedInputError, OutputError
from gpulsh.ragged import range_order
from gpulsh.run.output.work_folder import WorkLock
from gpulsh.store import durable
from gpulsh.store.columns import Column, MappedColumns, columns_file, range_rows, write_columns
from gpulsh.store.durable import FileFact, durable_file, fact_of
from gpulsh.store.lock import open_locked
from gpulsh.store.manifest import NAME, Manifest


def test_a_file_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="no more"), durable_file(path) as file:
        file.write(b"half")
        raise ValueError("no more")
    with pytest.raises(ValueError, match="no more"), durable.DurableFiles(tmp_path) as files:
        with files.part(f"{tmp_path}/a", f"{tmp_path}/a.txt")() as file:
            file.write(b"x")
        raise ValueError("no more")
    assert list(tmp_path.iterdir()) == []
    with durable_file(path) as file:
        file.write(b"who")
        file.write(memoryview(b"le"))
        assert not path.exists() and file.tell() == 5
        fact = file.fact()
    assert path.read_bytes() == b"whole" and list(tmp_path.iterdir()) == [path]
    assert fact_of(path) == fact == FileFact(5, zlib.crc32(b"whole"))
    path.write_bytes(b"whale")
    assert fact_of(path) != fact


@pytest.mark.parametrize("length", [216, 217, 218, 255])
def test_a_partial_file_fits_the_longest_name(length: int, tmp_path: Path) -> None:
    with durable_file(tmp_path / ("n" * length)) as file:
        file.write(b"whole")
        assert next(tmp_path.iterdir()).name.endswith(durable.PART_SUFFIX)
    assert [len(path.name) for path in tmp_path.iterdir()] == [length]


def test_the_last_writer_to_finish_wins(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with durable_file(path) as first:
        first.write(b"first")
        with durable_file(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.symlink_to("file"), Path.mkdir, os.mkfifo])
def test_only_regular_files_have_a_fact(make: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    make(tmp_path / "it")
    assert fact_of(tmp_path / "it") is None


def test_os_errors_name_the_file(tmp_path: Path) -> None:
    full = r"there: cannot be written: No space left on device; two are left"
    with pytest.raises(OutputError, match=full), durable.writing("there", "; two are left"):
        raise OSError(errno.ENOSPC, "of the system")
    with pytest.raises(OutputError, match="there: cannot be written: in words of its own"), durable.writing("there"):
        raise OSError("in words of its own")
    with pytest.raises(OSError, match="quota") as failed, durable.naming(tmp_path / "file"):
        raise OSError(errno.EDQUOT, "quota")
    assert failed.value.filename == str(tmp_path / "file")
    with pytest.raises(OSError) as failed:
        durable.sync_file_system(-1)
    assert failed.value.errno == errno.EBADF


@pytest.mark.parametrize("reported", [errno.EINVAL, errno.ENOTSUP])
def test_a_folder_that_cannot_be_synced_is_left_to_its_file_system(
    reported: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux reports EINVAL for a folder of CIFS before 4.17, and of some FUSE file systems; others of FUSE ENOTSUP."""

    def no_folders(handle: int) -> None:
        raise OSError(reported if stat.S_ISDIR(os.fstat(handle).st_mode) else errno.EIO, "refused")

    monkeypatch.setattr(os, "fsync", no_folders)
    durable.sync(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="refused"):
        durable.sync(tmp_path / "file")


def test_what_a_file_system_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "there: cannot be written: Function not implemented; give a folder on another file system; two are left"
    with pytest.raises(OutputError, match=message), durable.writing("there", "; two are left"):
        raise OSError(errno.ENOSYS, "not that")
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "none")))
    message = "i: cannot be locked: No locks available; give a folder on another file system"
    with pytest.raises(OutputError, match=message):
        gpulsh.Index().save(tmp_path / "i")


def test_a_file_that_cannot_be_shared_is_mapped_privately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FUSE without a page cache reports ENODEV."""
    shared, mapped = mmap.MAP_SHARED, mmap.mmap

    def private_only(*given: Any, flags: int = shared, **named: Any) -> mmap.mmap:
        if flags == shared:
            raise OSError(errno.ENODEV, "No such device")
        return mapped(*given, flags=flags, **named)

    monkeypatch.setattr(mmap, "mmap", private_only)
    monkeypatch.setattr(pa, "memory_map", Mock(side_effect=OSError(errno.ENODEV, "No such device")))
    write_columns(tmp_path / "a.arrow", {"hashes": np.arange(5, dtype=np.uint64)})
    file = MappedColumns(tmp_path / "a.arrow", Hashes)
    file.release()
    assert file.whole().hashes.tolist() == [0, 1, 2, 3, 4]
    column = Column(np.int64, tmp_path)
    column.append(np.arange(3))
    assert column.whole().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("count", "reports", "syncs"), [(9, True, ["fsync"] * 8), (20, True, ["syncfs"]), (20, False, ["fsync"] * 19)]
)
def test_files_are_synced_before_they_are_renamed(
    count: int, reports: bool, syncs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def watched(name: str, call: Callable[..., None]) -> Callable[..., None]:
        return lambda *given: (done.append(name), call(*given))[1]

    monkeypatch.setattr(os, "fsync", watched("fsync", os.fsync))
    monkeypatch.setattr(os, "replace", watched("replace", os.replace))
    monkeypatch.setattr(durable, "sync_file_system", watched("syncfs", durable.sync_file_system))
    monkeypatch.setattr(durable, "REPORTS_ERRORS", reports)
    with durable.DurableFiles(tmp_path) as files:
        for number in range(count):
            open_part = files.part(f"{tmp_path}/step-{number}", f"{tmp_path}/{number}.txt")
            if number != 7:
                with open_part() as file:
                    file.write(b"x" * number)
        facts = files.complete()
    assert done == syncs + ["replace"] * (count - 1)
    assert facts == {str(path): fact_of(path) for path in tmp_path.iterdir()} and len(facts) == count - 1


# --- the finished steps of a job, from a manifest after a crash or an edit by hand ---


SECRET = bytes(range(32))


def test_steps_are_found_again_with_their_files_and_facts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = Manifest.begin(tmp_path, {"a": 1}, SECRET)
    with durable_file(tmp_path / "made") as file:
        file.write(b"content")
        fact = file.fact()
    manifest.add("one", {"made": fact}, {"n": 1})
    manifest.add("one", {"made": fact}, {"n": 2})  # done again: the last counts
    found = Manifest.open(tmp_path)
    assert found is not None and (found.job, found.secret) == ({"a": 1}, SECRET)
    ((name, step),) = found.steps()
    assert (name, step.files, step.facts) == ("one", {"made": fact}, {"n": 2})
    assert found.finished("one") == {"n": 2} and found.finished("two") is None
    (tmp_path / "made").write_bytes(b"contend")
    assert found.finished("one") is None
    (tmp_path / "made").unlink()
    assert found.finished("one") is None
    assert caplog.text.count("made is missing or damaged; it is computed again") == 2
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_a_torn_line_of_the_manifest_is_ignored(tmp_path: Path) -> None:
    manifest = Manifest.begin(tmp_path, {"a": 1}, SECRET)
    manifest.add("one", {}, {"n": 1})
    whole = (tmp_path / NAME).read_bytes()
    manifest.add("two", {}, {"n": 2})
    both = (tmp_path / NAME).read_bytes()
    for length in range(len(whole), len(both)):
        (tmp_path / NAME).write_bytes(both[:length])
        found = Manifest.open(tmp_path)
        assert found is not None and found.find("one") is not None and found.find("two") is None
        found.add("three", {}, {})
        again = Manifest.open(tmp_path)
        assert again is not None and again.find("three") is not None
    for length in range(whole.index(b"\n") + 1):
        (tmp_path / NAME).write_bytes(whole[:length])
        assert Manifest.open(tmp_path) is None


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "data/../../out", "a\0b"])
def test_a_step_naming_a_file_outside_is_refused(name: str, tmp_path: Path) -> None:
    Manifest.begin(tmp_path, {}, SECRET).add("one", {name: FileFact(8, 1)}, {})
    with pytest.raises(OutputError, match="is damaged: it names the file"):
        Manifest.open(tmp_path)


# --- numbers in files are read as written: mapped, by ranges of hashes, or appended ---


class Rows(NamedTuple):
    hashes: NDArray[np.uint64]
    place: NDArray[np.signedinteger]
    kept: NDArray[np.bool_]
    name: pa.Array


class Hashes(NamedTuple):
    hashes: NDArray[np.uint64]


SCHEMA = pa.schema([("hashes", pa.uint64()), ("place", pa.int32()), ("kept", pa.uint8()), ("name", pa.string())])


def test_runs_of_rows_are_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    runs = [(np.arange(n, dtype=np.uint64), np.arange(n, dtype=np.int32), np.arange(n) % 3 == 0) for n in (3, 0, 20)]
    with columns_file(path, SCHEMA) as file:
        for hashes, place, kept in runs:
            file.append([hashes, place, kept, pa.array(map(str, range(len(hashes))), pa.string())])
        fact = file.finish()
    assert fact_of(path) == fact and path.stat().st_mode & 0o777 == 0o600
    mapped = MappedColumns(path, Rows)
    for (hashes, place, kept), found in zip(runs, mapped.runs(), strict=True):
        assert found.hashes.tolist() == hashes.tolist() and found.hashes.dtype == np.uint64
        assert found.place.tolist() == place.tolist()
        assert found.kept.tolist() == kept.tolist()
        assert found.name.to_pylist() == [str(n) for n in range(len(hashes))]
    path.unlink()
    mapped.release()  # the pages are read again, though the name is gone
    assert [len(run.hashes) for run in mapped.runs_of(Hashes)] == [3, 0, 20]
    with pytest.raises(DamagedInputError, match="it holds 3 record batches, not one"):
        mapped.whole()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"place": np.arange(3)}, "it lacks the column 'hashes'"),
        ({"hashes": np.arange(2.0)}, "column 'hashes' is double, not uint64"),
        *(({"hashes": np.arange(3, dtype=kind)}, f"is {kind}, not uint64") for kind in ("uint32", "int64")),
        *(({"hashes": pa.array([odd])}, f"is {kind}, not uint64") for odd, kind in (("a", "string"), (True, "bool"))),
    ],
)
def test_columns_of_another_type_are_damage(columns: Any, message: str, tmp_path: Path) -> None:
    write_columns(tmp_path / "a.arrow", columns)
    with pytest.raises(DamagedInputError, match=message):
        MappedColumns(tmp_path / "a.arrow", Hashes).whole()
    write_columns(tmp_path / "a.arrow", {"hashes": np.empty(0, np.int64)})  # as without decisions
    assert MappedColumns(tmp_path / "a.arrow", Hashes).whole().hashes.dtype == np.uint64


def test_a_truncated_file_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_columns(path, {"hashes": np.arange(100, dtype=np.uint64)})
    content = path.read_bytes()
    for length in range(1, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedInputError, match="is damaged"):
            MappedColumns(path, Hashes).whole()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.integers(1, 9))
def test_a_range_of_hashes_is_one_slice(hashes: list[int], parts: int) -> None:
    given_hashes = np.array(hashes, np.uint64)
    order = range_order(given_hashes)
    assert sorted(order.tolist()) == list(range(len(hashes)))
    ordered = given_hashes[order]
    assert (np.diff((ordered >> np.uint64(48)).astype(np.int64)) >= 0).all()
    for part in range(parts):
        low, high = -(-(part << 64) // parts), -(-((part + 1) << 64) // parts)
        wanted = {value for value in hashes if low <= value < high}
        rows = range_rows(ordered, part, parts)
        assert wanted <= set(ordered[rows].tolist())
        outside = {value >> 48 for value in hashes} - {value >> 48 for value in ordered[rows].tolist()}
        assert not outside & {value >> 48 for value in wanted}


@pytest.mark.parametrize("in_file", [False, True])
def test_appended_arrays_become_one(in_file: bool, tmp_path: Path) -> None:
    nothing, column = (Column(np.int64, tmp_path if in_file else None) for _ in range(2))
    empty = nothing.whole()
    assert empty.tolist() == [] and empty.dtype == np.int64
    for array in (np.arange(3), np.arange(10)[::-2], np.array([7], np.uint8)):  # in any layout and type
        column.append(array)
    whole = column.whole()
    column.release()
    assert whole.tolist() == [0, 1, 2, 9, 7, 5, 3, 1, 7]
    assert not list(tmp_path.iterdir())  # it has no name


# --- one process at a time has the lock of a folder, however the lock's file comes and goes ---


@pytest.fixture
def no_handle_is_left() -> Iterator[None]:
    before = os.listdir("/proc/self/fd")
    yield
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.usefixtures("no_handle_is_left")
def test_a_lock_has_one_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_locked(tmp_path / "lock", 0o600)
    with pytest.raises(BlockingIOError):
        open_locked(tmp_path / "lock", 0o600, required=False)
    with pytest.raises(OutputError, match="another run of gpulsh works in it now"):
        WorkLock(tmp_path)
    os.close(first)
    os.close(open_locked(tmp_path / "lock", 0o600, create=False))
    lock = fcntl.flock

    def later(handle: int, how: int) -> None:
        """A run ends and removes its work folder between two calls of another run: that file is no lock."""
        (tmp_path / "lock").unlink()
        lock(handle, how)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", later)
        with pytest.raises(BlockingIOError):
            open_locked(tmp_path / "lock", 0o600)
        with pytest.raises(OutputError, match="another run of gpulsh works in it now"):
            WorkLock(tmp_path)
    WorkLock(tmp_path).release()
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
    with pytest.raises(OSError, match="No locks available"):
        open_locked(tmp_path / "lock", 0o600)
    WorkLock(tmp_path).release()  # a file system may have no locks
