"""Checks on the paths that a command writes: they must not overlap inputs, or replace files of others."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh import __version__
from gpulsh.checks import checked_folder, is_url
from gpulsh.errors import OutputError, ParameterError
from gpulsh.io.file import File, real_paths
from gpulsh.io.files.no_documents import MARK


@dataclass(frozen=True)
class Folders:
    """The output folders of a run."""

    output: str
    work: str | None  # where the output is a URL
    index: str | None

    @classmethod
    def chosen(cls, output: object, work: object, index: object) -> Self:
        """ParameterError or OutputError if one of them cannot be used."""
        folders = cls(
            checked_folder("output", output),
            None if work is None else checked_folder("work", work),
            None if index is None else checked_folder("index", index),
        )
        if folders.work is not None and not folders.is_remote:
            raise ParameterError("--work is given, and OUT is not a URL; leave it out")
        for folder in (folders.work, folders.index):
            if folder is not None:
                refuse_url(folder)
        return folders

    @property
    def is_remote(self) -> bool:
        """Whether the output is a URL."""
        return is_url(self.output)

    def refuse_overlap(self, inputs: Sequence[str], files: Sequence[File]) -> None:
        """OutputError as `refuse_overlap`, for each of them and the others."""
        for folder in (self.output, self.work):
            if folder is None:
                continue
            refuse_overlap(folder, inputs, files)
            if self.index is not None:
                refuse_inside(folder, self.index, "index")
                refuse_inside(self.index, folder, "output" if folder == self.output else "work folder")
        if self.index is not None:
            refuse_overlap(self.index, inputs, files)


def refuse_url(folder: str) -> None:
    """OutputError if a URL is not supported."""
    if is_url(folder):
        raise OutputError(f"{folder}: is a URL; give a local path, and copy it there afterwards")


def refuse_overlap(path: str, inputs: Sequence[str], files: Sequence[File]) -> None:
    """OutputError if an output is an INPUT or an input file, is inside one, or has one inside it.

    The spelling of URLs is compared, except for files of this machine.
    """
    remote = is_url(path)
    target = _real_path(path)
    inputs = [given.removeprefix("file://").removeprefix("local://") for given in inputs]
    for given in (given for given in inputs if is_url(given) == remote):
        if remote or os.path.isdir(given) or _real_path(given) == target:
            refuse_inside(path, given, "input")
    if not remote and not os.path.exists(target):  # it can hold no file
        return
    real = real_paths()
    for file in files:
        if remote or file.filesystem is None:
            place = _real_path(file.name) if remote else real(file.path)
            if place == target:
                raise OutputError(f"{path}: is the input {file.name}; give another path")
            if _is_inside(place, target):
                raise OutputError(f"{path}: holds the input {file.name}; give another folder")


def refuse_inside(path: str, folder: str, kind: str) -> None:
    """OutputError if an output is a folder of that kind, or inside it; the folder may not exist yet."""
    target, around = _real_path(path), _real_path(folder)
    if target == around:
        raise OutputError(f"{path}: is the {kind} itself; give another path")
    if _is_inside(target, around):
        raise OutputError(f"{path}: is inside the {kind} {folder}; give a path outside of it")


def not_empty_error(out: object, ours: str | None) -> OutputError:
    """The error of an OUT that is not empty; `ours` describes its content if gpulsh wrote it and may replace it."""
    if ours is None:
        return OutputError(f"{out}: is not empty, it holds files that gpulsh did not write; give another folder")
    return OutputError(f"{out}: is not empty, it holds {ours}; give another folder, or --overwrite to replace them")


def _real_path(path: str) -> str:
    return path.rstrip("/") if is_url(path) else os.path.realpath(path)


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


FIRST_LINE = 1 << 20  # bytes
PICTURES = (".png", ".svg")
DRAWN, FIRST_BYTES = "gpulsh curve", 4096  # in the first bytes of a picture, as the program that made it


def with_mark(schema: pa.Schema) -> pa.Schema:
    """The schema of a Parquet file that gpulsh knows as its own."""
    return schema.with_metadata({**(schema.metadata or {}), MARK: __version__})


def refuse_present(output: str | os.PathLike[str], *, overwrite: bool, columns: tuple[str, ...] = ()) -> None:
    """OutputError if a file is there, but with `overwrite` one of gpulsh's.

    The file is a Parquet file `with_mark`, JSON lines with these `columns`, or a picture with gpulsh as its program.
    """
    if not os.path.lexists(output):
        return
    name = os.fspath(output)
    if not overwrite:
        raise OutputError(f"{name}: is there already; give another file, or --overwrite if gpulsh wrote it")
    if not _is_ours(name, columns):
        raise OutputError(f"{name}: was not written by gpulsh; give another file, or move it away")


def _is_ours(name: str, columns: tuple[str, ...]) -> bool:
    try:
        if not stat.S_ISREG(os.lstat(name).st_mode):
            return False
        with open(name, "rb") as file:
            if name.endswith(".jsonl"):
                line = file.readline(FIRST_LINE)
                return not line or tuple(json.loads(line)) == columns
            if name.endswith(PICTURES):
                return DRAWN.encode() in file.read(FIRST_BYTES)
            return MARK.encode() in (pq.read_metadata(file).metadata or {})
    except (OSError, ValueError, TypeError, RecursionError, pa.ArrowException):
        return False
