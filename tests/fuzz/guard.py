"""What a process does to files and to other processes, by Python's audit events.

Recorded are writes outside of the paths that it may write to, reads of paths that it must not read, and executed
commands. They are not prevented, so that the judge sees what would have happened.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {  # event -> arguments that are a path and its folder's handle
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
MOST = 20  # acts that are recorded


def watch(folder: Path, writes: Sequence[str], found: list[str]) -> None:
    """From here on, add forbidden acts of this process to `found`; it may change the names `writes` in `folder`.

    There is no way to stop it.
    """
    base = os.path.realpath(folder)
    allowed = [os.path.join(base, name) for name in writes]
    secret = os.path.join(base, "beside")

    def is_allowed(path: str) -> bool:
        of_numba = f"{os.sep}__pycache__" in path
        return of_numba or path.startswith(("/dev/", "/proc/")) or any(_is_within(path, root) for root in allowed)

    def acts(event: str, arguments: tuple[Any, ...]) -> list[str]:
        if event in EXECUTES:
            return [] if _is_compiler() else [f"{event} {arguments[:2]!r}"[:300]]
        if event == "open":
            path, mode, flags = arguments
            flags = flags or 0
            where = _place(path, None, follow=not flags & os.O_NOFOLLOW)
            if where is None:
                return []
            if _is_within(where, secret):
                return [f"opens {os.path.relpath(where, base)}"]
            writing = flags & WRITING or any(letter in (mode or "") for letter in "wax+")
            nameless = _is_within(where, base) and os.path.isdir(where)  # a file that changes nothing there
            return [f"writes {where}"] if writing and not nameless and not is_allowed(where) else []
        found = []
        for path, handle in CHANGES.get(event, ()):
            where = _place(arguments[path], None if handle is None else arguments[handle], follow=False)
            fails = where is None or (event == "os.mkdir" and os.path.isdir(where))
            if where is not None and not fails and not is_allowed(where):
                found.append(f"{event} {where}")
        return found

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" or event in CHANGES or event in EXECUTES:
            with suppress(OSError, ValueError):  # of a path that is none
                found.extend(acts(event, arguments)[: MOST - len(found)])

    sys.addaudithook(hook)


def _place(path: Any, handle: Any, follow: bool) -> str | None:
    """The real path, of the link itself unless `follow`; None for a handle."""
    if isinstance(path, int) or path is None:
        return None
    path = os.fsdecode(path)
    if isinstance(handle, int) and handle >= 0 and not os.path.isabs(path):
        path = os.path.join(os.readlink(f"/proc/self/fd/{handle}"), path)
    if follow:
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def _is_compiler() -> bool:
    """Whether Numba, whose caches are pickled, does it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("numba."):
            return True
        frame = frame.f_back
    return False
