"""The places of kept rows: paths below `data/`, and nowhere else.

Strangers name the keys of a bucket and the members of an archive. So a path that could lead out of its folder is
refused when it is found. It is checked again when it is written to, because there may be a link by then.
"""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from gpulsh.errors import InputError, OutputError
from gpulsh.io.file import File
from gpulsh.io.urls import CACHES

LONGEST_NAME = 255  # bytes, of every file system in use

Origin = tuple[str, ...]  # the folders of a path


def has_parent_parts(path: str) -> bool:
    """Whether a path, as a store or an archive spells it, has a part `..`."""
    return ".." in path.split("/")


def refuse_outside(file: File) -> None:
    """InputError if the file's place in `data/` is not a plain path below it, or no file can have that name."""
    parts = file.relative.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise InputError(
            f"{file.name}: would become data/{file.relative}, which is outside of data/; leave the file out, or"
            " give it or its folder as another INPUT"
        )
    try:
        possible = "\0" not in file.relative and max(map(len, map(os.fsencode, parts))) <= LONGEST_NAME
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise InputError(
            f"{file.name}: no file can have this name: a part of it has a NUL, a lone surrogate or more than"
            f" {LONGEST_NAME} bytes; rename it"
        )


def _origin(file: File) -> Origin:
    """The folders of a file's path above its place in `data/`, or of the archive it is in; none without a folder."""
    if file.filesystem is None:
        path = os.path.abspath(file.name) if os.path.dirname(file.name) else file.name  # a stream's copy is elsewhere
    else:
        around = [part for part in file.source.split("::") if part not in CACHES][1:]
        below = file.path.partition("://")[2] or file.path
        path = "/".join([*reversed([outer.partition("://")[2] or outer for outer in around]), below])
    parts = _plain(path)
    return parts[: len(parts) - len(_plain(file.relative))]


def own_folders(origins: Iterable[Origin]) -> Mapping[Origin, str]:
    """For each origin a folder below `data/`: its shortest end that no other shares, and that is not above another."""
    known = set(origins)
    shared = Counter(folder[-length:] for folder in known for length in range(1, len(folder) + 1))
    lengths = {
        folder: next((length for length in range(1, len(folder)) if shared[folder[-length:]] == 1), len(folder))
        for folder in known
    }
    while True:
        by_end = {folder[len(folder) - length :]: folder for folder, length in lengths.items()}
        longer = {
            by_end[end[:above]]
            for end in by_end
            for above in range(1, len(end))
            if end[:above] in by_end and lengths[by_end[end[:above]]] < len(by_end[end[:above]])
        }
        if not longer:
            return {folder: "/".join(end) for end, folder in by_end.items()}
        for folder in longer:
            lengths[folder] += 1


def _plain(path: str) -> Origin:
    return tuple(part for part in path.split("/") if part not in ("", ".", ".."))


def with_distinct_names(files: Sequence[File]) -> list[File]:
    """The files with unique names in evidence, which shows invalid UTF-8 as U+FFFD.

    Names that look the same so have their invalid bytes spelled as \\xff. InputError if that name is taken.
    """
    often = Counter(_shown(file.name) for file in files)
    found = [
        file if often[_shown(file.name)] == 1 else replace(file, name=_shown(file.name, "backslashreplace"))
        for file in files
    ]
    names: dict[str, File] = {}
    for file in found:
        if names.setdefault(_shown(file.name), file) is not file:
            raise InputError(f"{file.name}: two files would have this name in evidence; rename one of them")
    return found


def _shown(name: str, errors: str = "replace") -> str:
    return name if name.isascii() else os.fsencode(name).decode("utf-8", errors)


class Targets:
    """The places of files below `folder`; a subfolder is checked once for all its files.

    The folder above `folder` is not made: a worker of a run that was given up may still write when the run's folder is
    removed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, str] = {}

    def of(self, file: File) -> str:
        """The file's place, with the folders above it made; OutputError if a link leads out of it."""
        refuse_outside(file)
        above, name = posixpath.split(file.relative)
        if above not in self._known:
            folder, below = self._folder, Path(above)
            wanted = os.path.join(os.path.realpath(folder.parent), folder.name, below)
            if os.path.realpath(folder / below) != os.path.normpath(wanted):
                raise OutputError(f"{folder / below}: is behind a link that gpulsh did not make; remove the link")
            for part in (*reversed(below.parents), below):
                (folder / part).mkdir(exist_ok=True)
            self._known[above] = str(folder / below)
        return f"{self._known[above]}/{name}"


def with_places(files: Sequence[File], protected: Sequence[str]) -> list[File]:
    """The files with their places in `data/`.

    With several folders or globs, or where two files would have one place, each INPUT has a folder of its own there.
    INPUTs of one folder share it. Files given by name from a folder above all others need none.
    """
    written = [file for file in files if file.source not in protected]
    if len({file.source for file in written}) < 2 and _clash_message(written) is None:
        return list(files)
    origins = {id(file): _origin(file) for file in written}
    whole = {origins[id(file)] for file in written if file.name != file.source}  # taken or searched
    if len(whole) < 2 and _clash_message(written) is None:
        return list(files)
    together = takewhile(lambda parts: len(set(parts)) == 1, zip(*origins.values(), strict=False))
    top = tuple(parts[0] for parts in together)  # the deepest folder that is, or contains, all of them
    if top in whole:
        top = ()
    folders = own_folders({found for found in origins.values() if found != top})
    placed = []
    for file in files:
        own = origins.get(id(file), top)
        placed.append(file if own == top else replace(file, relative=posixpath.join(folders[own], file.relative)))
    for file in placed:
        refuse_outside(file)
    clash = _clash_message([file for file in placed if file.source not in protected])
    if clash is not None:
        raise InputError(clash)
    return placed


def _clash_message(files: Sequence[File]) -> str | None:
    """A message about two files with one place; None if all places differ."""
    places: dict[str, File] = {}
    for file in files:
        other = places.setdefault(file.relative, file)
        if other is not file:
            return (
                f"{other.name} and {file.name} would both become data/{file.relative}; give the folder that holds both"
            )
    for file in files:
        above = os.path.dirname(file.relative)
        while above:
            if above in places:
                return f"data/{above} would be both {places[above].name} and the folder of {file.name}"
            above = os.path.dirname(above)
    return None
