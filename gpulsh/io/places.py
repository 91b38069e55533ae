"""Where the kept rows of a file go: a path below `data/`, and nowhere else, whoever named the file.

Names come from strangers: the keys of a bucket, the members of an archive, the matches of a pattern. A path that could
lead out of a folder is refused when it is found, and again when it is written to, where a link may stand by then.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gpulsh.errors import InputError, OutputError
from gpulsh.io.format import File

LONGEST_NAME = 255  # bytes, of every file system in use


def climbs(path: str) -> bool:
    """Whether a path, as a store or an archive spells it, has a part `..`."""
    return ".." in path.split("/")


def refuse_outside(file: File) -> None:
    """InputError where the file's place in `data/` is no plain path below it, or no file can have that name."""
    parts = file.relative.split("/")
    if file.relative.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise InputError(
            f"{file.name}: would become data/{file.relative}, which is no place below data/; leave the file out, or"
            " give it, or the folder that holds it, as an INPUT of its own"
        )
    if not all(map(_possible, parts)):
        raise InputError(
            f"{file.name}: no file can have this name: a part of it holds a NUL or a lone surrogate, or has more than"
            f" {LONGEST_NAME} bytes; rename it"
        )


def refuse_names_told_as_one(files: Sequence[File]) -> None:
    """InputError where reports and evidence could not tell two names: those with bytes that are no UTF-8."""
    told: dict[str, File] = {}
    for file in files:
        other = told.setdefault(as_told(file.name), file)
        if other is not file:
            raise InputError(
                f"{as_shown(other.name)} and {as_shown(file.name)} would both be told as {as_told(file.name)}, for what"
                " is no UTF-8 cannot be told; rename one of them"
            )


def as_told(name: str) -> str:
    """A name as evidence has it: bytes that are no UTF-8 as U+FFFD."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def as_shown(name: str) -> str:
    """A name with the bytes that are no UTF-8 as \\xff."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def place_below(folder: Path, file: File) -> Path:
    """The file's place below `folder`, with the folders above it made; OutputError where a link leads out of it."""
    refuse_outside(file)
    place = folder / file.relative
    wanted = os.path.join(os.path.realpath(folder.parent), place.parent.relative_to(folder.parent))
    if os.path.realpath(place.parent) != wanted:
        raise OutputError(f"{place}: lies behind a link, which gpulsh did not make; remove the link")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _possible(part: str) -> bool:
    try:
        return "\0" not in part and len(os.fsencode(part)) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False
