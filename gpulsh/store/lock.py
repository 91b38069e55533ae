"""The lock of one process on a folder: flock(2) on a file in it, which the system gives back when the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

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
