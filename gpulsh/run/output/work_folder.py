"""`OUT/_work`: the private folder of a run, and its lock.

The lock contains words that only gpulsh writes, before anything else is there. A folder without them, or a link, is
the user's: gpulsh reads, writes and removes nothing in it. The lock also shows whether a run works there or has died.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from gpulsh.errors import OutputError
from gpulsh.store.durable import naming, open_file, sync
from gpulsh.store.lock import open_locked
from gpulsh.store.manifest import NAME

WORK = "_work"
LOCK = "lock"
LEAVE_SECONDS = 5.0  # seconds in which stopped workers may still write
LOCK_TEXT = b"gpulsh works here, and removes this folder with all that is in it; process "


def is_work_folder(work: Path) -> bool:
    """Whether gpulsh made it. A kill may leave it empty, or with the beginning of a lock alone."""
    try:
        if not stat.S_ISDIR(os.lstat(work).st_mode):
            return False
        if not (there := os.listdir(work)):
            return True
        words = _lock_text(work)
    except OSError:
        return False
    return words.startswith(LOCK_TEXT) or (there == [LOCK] and LOCK_TEXT.startswith(words))


def refuse_foreign(work: Path) -> None:
    """OutputError if a folder, a file or a link has its place that gpulsh did not make."""
    if os.path.lexists(work) and not is_work_folder(work):
        what = "is a link" if work.is_symlink() else "is not gpulsh's"
        raise OutputError(f"{work}: {what}, and gpulsh would work there; move it away first, or give another folder")


def refuse_running(work: Path) -> None:
    """OutputError if a run works in it, or it belongs to another user."""
    if os.geteuid() not in (0, os.lstat(work).st_uid):
        raise OutputError(f"{work}: belongs to another user; give another folder")
    with suppress(FileNotFoundError):  # without a lock file, nobody holds it
        WorkLock(work, create=False).release()


def refuse_links(work: Path) -> None:
    """OutputError if it contains a link, or a pipe: gpulsh makes none, and follows none."""
    for folder, folders, files in os.walk(work):
        for name in (*folders, *files):
            try:
                kind = os.lstat(path := os.path.join(folder, name)).st_mode
            except FileNotFoundError:  # of a worker that still writes, though its run was killed
                continue
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                what = "is a link" if stat.S_ISLNK(kind) else "is not a regular file"
                raise OutputError(f"{path}: {what}, which gpulsh did not make; remove it, or begin with --overwrite")


class WorkLock:
    """While its process holds it, no other run works in a folder that `is_work_folder`; OutputError if one does."""

    def __init__(self, work: Path, *, create: bool = True) -> None:
        try:
            self._handle: int | None = open_locked(work / LOCK, 0o644, create=create, required=False)
        except BlockingIOError:
            process = b""
            with suppress(OSError):  # that run has just removed it
                process = _lock_text(work).removeprefix(LOCK_TEXT).strip()
            who = f", process {process.decode()}," if process.isdigit() else ""
            raise OutputError(
                f"{work.parent}: another run of gpulsh{who} works in it now; wait until it has ended, or give another"
                " folder"
            ) from None

    def mark(self, work: Path) -> None:
        """Mark the folder as gpulsh's, durably. A folder that is already marked stays marked throughout."""
        assert self._handle is not None
        with naming(work / LOCK):
            os.pwrite(self._handle, b"%s%10d\n" % (LOCK_TEXT, os.getpid()), 0)
            os.fsync(self._handle)
        sync(work)

    def release(self) -> None:
        """Let others work there."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def clear(work: Path, last: tuple[str, ...] = (LOCK,)) -> None:
    """Remove its content except `last`. Links are removed, not their targets."""
    for entry in work.iterdir():
        if entry.name not in last:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def remove_work(work: Path) -> None:
    """Remove a work folder, and its lock last: after a kill in between, the next run still recognises it."""
    deadline = time.monotonic() + LEAVE_SECONDS
    while os.path.lexists(work):
        try:
            clear(work, (NAME, LOCK))
            for name in (NAME, LOCK):
                (work / name).unlink(missing_ok=True)
            work.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or time.monotonic() > deadline:
                return
            time.sleep(0.01)


def _lock_text(work: Path) -> bytes:
    """The content of its lock; OSError if there is none."""
    with open_file(work / LOCK) as file:
        return file.read(len(LOCK_TEXT) + 32)
