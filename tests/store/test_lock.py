"""One process at a time has the lock of a folder, however the lock's file comes and goes."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulsh.errors import OutputError
from gpulsh.run.output.work_folder import WorkLock
from gpulsh.store.lock import locked


@pytest.fixture(autouse=True)
def no_handle_is_left() -> Iterator[None]:
    before = os.listdir("/proc/self/fd")
    yield
    assert os.listdir("/proc/self/fd") == before


def test_a_lock_is_given_to_one(tmp_path: Path) -> None:
    first = locked(tmp_path / "lock", 0o600)
    with pytest.raises(BlockingIOError):
        locked(tmp_path / "lock", 0o600, required=False)
    with pytest.raises(OutputError, match="another run of gpulsh works in it now"):
        WorkLock(tmp_path)
    os.close(first)
    os.close(locked(tmp_path / "lock", 0o600, create=False))


def test_a_file_that_its_owner_removed_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends, and removes its work folder, between two calls of another one."""
    lock = fcntl.flock

    def later(handle: int, how: int) -> None:
        (tmp_path / "lock").unlink()
        lock(handle, how)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", later)
        with pytest.raises(BlockingIOError):
            locked(tmp_path / "lock", 0o600)
        with pytest.raises(OutputError, match="another run of gpulsh works in it now"):
            WorkLock(tmp_path)
    WorkLock(tmp_path).release()


def test_a_file_system_may_have_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(OSError, match="No locks available"):
        locked(tmp_path / "lock", 0o600)
    WorkLock(tmp_path).release()
