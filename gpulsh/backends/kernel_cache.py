"""The folder of compiled CPU kernels, which nobody else can write to.

Its files are executed. So this user or root must own the folder and every folder above it. No other user may write to
them, except in sticky folders such as /tmp, where others can change only their own files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent / "cpu"
# Other files whose constants are in kernels.
CONSTANTS = ("backends/darts.py", "backends/host.py", "backends/protocol.py", "backends/unicode_table.py", "secret.py")


@dataclass(frozen=True)
class KernelCache:
    """`folder` is None if every process compiles for itself. `refused` says why earlier choices were refused."""

    folder: str | None
    refused: tuple[str, ...] = ()


@cache
def kernel_cache() -> KernelCache:
    """The cache of this process."""
    return find_kernel_cache(os.environ, PACKAGE)


def find_kernel_cache(environment: Mapping[str, str], package: Path) -> KernelCache:
    """The first usable one of NUMBA_CACHE_DIR, the package's folder, the user's cache and the temporary folder."""
    # Several installations share the folders outside the package.
    name = f"gpulsh-{hashlib.sha256(os.fsencode(package.absolute())).hexdigest()[:16]}"
    places: list[Callable[[], Path]] = [
        lambda: package / "__pycache__",
        lambda: _user_folder(environment) / name,
        lambda: _temporary() / name,
    ]
    if given := environment.get("NUMBA_CACHE_DIR"):
        places.insert(0, lambda: Path(os.path.abspath(given)) / name)
    refused: list[str] = []
    for place in places:
        try:
            return KernelCache(str(_make_folder(place())), tuple(refused))
        except OSError as error:
            refused.append(f"{error.filename}: {os.strerror(error.errno)}" if error.errno else str(error))
    return KernelCache(None, tuple(refused))


def temporary_folder(name: str) -> str | None:
    """A folder in the temporary folder that only this user can write to; None if there is none."""
    try:
        return str(_make_folder(_temporary() / name))
    except OSError:
        return None


def sources() -> list[Path]:
    """All files that a kernel may be compiled from."""
    return [*sorted(PACKAGE.rglob("*.py")), *(Path(__file__).parents[1] / name for name in CONSTANTS)]


@cache
def sources_digest() -> bytes:
    """The digest of their contents; installed files may all have the same time."""
    digest = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        digest.update(b"%d " % len(content) + content)
    return digest.digest()


def _user_folder(environment: Mapping[str, str]) -> Path:
    """The user's cache folder, if the user has a home."""
    given = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return Path(given)
    home = environment.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise OSError("HOME is not set, and the user has no home folder")
    if not os.path.isdir(home):
        raise OSError(f"{home}: the home folder does not exist")
    return Path(home, ".cache")


def _temporary() -> Path:
    """The user's own folder below the temporary one, closed to others."""
    try:
        above = os.path.realpath(tempfile.gettempdir())
        # Python's last resort is the current folder, which holds the user's own files.
        if above == os.path.realpath(os.curdir) and not os.stat(above).st_mode & stat.S_ISVTX:
            raise FileNotFoundError
    except FileNotFoundError as error:
        raise OSError("there is no temporary folder that can be written to") from error
    folder = Path(above, f"gpulsh-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise OSError(f"{folder}: other users can write to it")
    return folder


def _make_folder(folder: Path) -> Path:
    """The folder, made if missing, private and without links in its path."""
    above = next(place for place in (folder, *folder.parents) if place.exists())
    place = Path(os.path.realpath(above))
    _check(place)
    for name in folder.relative_to(above).parts:
        place /= name
        place.mkdir(mode=0o700, exist_ok=True)
    _check(place)
    return place


def _check(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"{folder}: cannot be written to")
    for place in (folder, *folder.parents):
        found = os.lstat(place)
        if not stat.S_ISDIR(found.st_mode):
            raise OSError(f"{place}: is not a folder")
        if found.st_uid not in (0, os.geteuid()):
            raise OSError(f"{place}: is another user's")
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if shared and (place == folder or not found.st_mode & stat.S_ISVTX):
            raise OSError(f"{place}: can be written to by others")
