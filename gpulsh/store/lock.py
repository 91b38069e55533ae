"""The lock of one process on a folder: flock(2) on a file in it, which the system gives back when the process ends.

The file of an index also has the name of the file with its commits, once there is one. So the loss of that file is
noticed, and no new index begins in its place.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from gpulsh.errors import OutputError
from gpulsh.store.durable import open_file

OPEN_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


def open_locked(path: Path, mode: int, *, create: bool = True, required: bool = True) -> int:
    """The handle of the file at `path`, which this process locks until it closes the handle.

    A new file has the permissions `mode`. Raises BlockingIOError if another process has the lock, or has removed the
    file before this one had it: others would lock a new file. Raises OSError if the file system has no locks, unless
    `required` is False.
    """
    handle = os.open(path, OPEN_FLAGS | (os.O_CREAT if create else 0), mode)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if required or isinstance(error, BlockingIOError):
                raise
        if os.fstat(handle).st_nlink == 0:
            raise BlockingIOError
    except BaseException:
        os.close(handle)
        raise
    return handle


def record_commit(handle: int, name: str) -> None:
    """Write to a locked file that its folder has a commit, in the file `name`."""
    with suppress(OSError):  # the commit holds without it
        os.pwrite(handle, name.encode(), 0)


def refuse_lost_commit(lock: Path, name: str) -> None:
    """OutputError if the folder of a lock has had a commit in the file `name`, and that is gone."""
    try:
        with open_file(lock) as file:
            recorded = file.read(len(name) + 1)
    except FileNotFoundError:
        return
    if recorded == name.encode() and not os.path.lexists(lock.with_name(name)):
        raise OutputError(f"{lock.parent}: has lost {name}; restore it from a copy, or give another folder")
