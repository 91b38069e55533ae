"""Files that are there whole or not at all, and what tells one from a damaged one."""

import errno
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulsh.errors import OutputError
from gpulsh.store import durable
from gpulsh.store.durable import FileFact


def test_a_file_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="no more"), durable.durable_file(path) as file:
        file.write(b"half")
        raise ValueError("no more")
    assert list(tmp_path.iterdir()) == []
    with durable.durable_file(path) as file:
        file.write(b"who")
        file.write(memoryview(b"le"))
        assert not path.exists() and file.tell() == 5
        fact = file.fact()
    assert path.read_bytes() == b"whole" and list(tmp_path.iterdir()) == [path]
    assert durable.fact_of(path) == fact == FileFact(5, zlib.crc32(b"whole"))
    path.write_bytes(b"whale")
    assert durable.fact_of(path) != fact


def test_two_may_write_one_file_at_once_and_the_last_to_end_stands(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with durable.durable_file(path) as first:
        first.write(b"first")
        with durable.durable_file(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]


def test_a_private_file_is_for_its_owner_alone_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with durable.durable_file(tmp_path / "own", private=True) as file:
            file.write(b"secret")
    finally:
        os.umask(before)
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["absent", "link", "folder", "pipe"])
def test_what_is_no_file_has_no_fact(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "it"
    (tmp_path / "file").write_bytes(b"content")
    if kind == "link":
        path.symlink_to("file")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    assert durable.fact_of(path) is None


def test_what_the_system_refuses_names_the_file_and_what_is_left(tmp_path: Path) -> None:
    full = r"there: cannot be written: No space left on device; two are left"
    with pytest.raises(OutputError, match=full), durable.writing("there", "; two are left"):
        raise OSError(errno.ENOSPC, "told by nobody")
    with pytest.raises(OutputError, match="there: cannot be written: in words of its own"), durable.writing("there"):
        raise OSError("in words of its own")
    with pytest.raises(OSError, match="quota") as failed, durable.naming(tmp_path / "file"):
        raise OSError(errno.EDQUOT, "quota")
    assert failed.value.filename == str(tmp_path / "file")


@pytest.mark.parametrize(
    ("count", "reports", "syncs"), [(9, True, ["fsync"] * 8), (20, True, ["syncfs"]), (20, False, ["fsync"] * 19)]
)
def test_all_are_synced_before_any_has_its_name(
    count: int, reports: bool, syncs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def watched(name: str, call: Callable[..., None]) -> Callable[..., None]:
        return lambda *given: (done.append(name), call(*given))[1]

    monkeypatch.setattr(os, "fsync", watched("fsync", os.fsync))
    monkeypatch.setattr(os, "replace", watched("replace", os.replace))
    monkeypatch.setattr(durable, "sync_file_system", watched("syncfs", durable.sync_file_system))
    monkeypatch.setattr(durable, "REPORTS_ERRORS", reports)
    with durable.Together(tmp_path) as files:
        for number in range(count):
            part = files.part(f"{tmp_path}/step-{number}", f"{tmp_path}/{number}.txt")
            if number != 7:
                Path(part).write_bytes(b"x" * number)
        facts = files.complete()
    assert done == syncs + ["replace"] * (count - 1)
    assert facts == {str(path): durable.fact_of(path) for path in tmp_path.iterdir()} and len(facts) == count - 1


def test_a_file_system_that_cannot_be_synced() -> None:
    with pytest.raises(OSError) as failed:
        durable.sync_file_system(-1)
    assert failed.value.errno == errno.EBADF


def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no more"), durable.Together(tmp_path) as files:
        Path(files.part(f"{tmp_path}/a", f"{tmp_path}/a.txt")).write_bytes(b"x")
        raise ValueError("no more")
    assert list(tmp_path.iterdir()) == []
