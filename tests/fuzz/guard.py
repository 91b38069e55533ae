"""What a process does to files and to other processes, told by Python's audit events while it does it.

What is written outside of the paths it may write to, what is read of those it must not read, and what is executed:
recorded, not prevented, so that the judge sees what would have happened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {  # event -> which of its arguments are paths, and where the handle of their folder is
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.utime": ((0, 3),),
}
EXECUTES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "pickle.find_class", "socket.connect")
MOST_TOLD = 20


def _is_compiler() -> bool:
    """Whether it is Numba, whose caches are pickled, that does it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("numba."):
            return True
        frame = frame.f_back
    return False


def watch(folder: Path, writes: Sequence[str], told: list[str]) -> None:
    """From here on `told` lists what this process must not do; `writes` are the names in `folder` that it may change.

    There is no way to stop it.
    """
    base = os.path.realpath(folder)
    allowed = tuple(os.path.join(base, name) for name in writes)
    secret = os.path.join(base, "beside")
    system = ("/dev/", "/proc/")
    caches = f"{os.sep}__pycache__"  # of what Numba compiles

    def note(what: str) -> None:
        if len(told) < MOST_TOLD:
            told.append(what)

    def place(path: Any, handle: Any, follow: bool) -> str | None:
        if isinstance(path, int) or path is None:
            return None
        path = os.fsdecode(path)
        if isinstance(handle, int) and handle >= 0 and not os.path.isabs(path):
            path = os.path.join(os.readlink(f"/proc/self/fd/{handle}"), path)
        if follow:
            return os.path.realpath(path)
        return os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))

    def is_within(path: str, roots: Sequence[str]) -> bool:
        return any(path == root or path.startswith(root + os.sep) for root in roots)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        try:
            if event == "open":
                path, mode, flags = arguments
                writing = bool((flags or 0) & WRITING) or any(letter in (mode or "") for letter in "wax+")
                where = place(path, None, follow=not (flags or 0) & os.O_NOFOLLOW)
                if where is None:
                    return
                nameless = writing and os.path.isdir(where) and is_within(where, [base])
                if is_within(where, [secret]):
                    note(f"opens {where[len(base) + 1 :]}")
                elif nameless:  # a file that changes nothing there, and dies with the process; any other way fails
                    return
                elif writing and not is_within(where, allowed) and not where.startswith(system) and caches not in where:
                    note(f"writes {where.removeprefix(base + os.sep)}")
            elif event in CHANGES:
                for which, handle in CHANGES[event]:
                    where = place(arguments[which], None if handle is None else arguments[handle], follow=False)
                    if event == "os.mkdir" and where is not None and os.path.isdir(where):  # it will fail
                        continue
                    if where is not None and not is_within(where, allowed) and caches not in where:
                        note(f"{event} {where.removeprefix(base + os.sep)}")
            elif event in EXECUTES and not _is_compiler():
                note(f"{event} {arguments[:2]!r}"[:300])
        except (OSError, ValueError):  # a path that is none
            pass

    sys.addaudithook(hook)
