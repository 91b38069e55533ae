"""Options of runs over files: their types, and which of them cannot be combined."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import NoneType

from gpulsh.decide.counts.retention import Retention
from gpulsh.errors import InputError, InputTypeError, ParameterError
from gpulsh.io.files.pipes import is_stream
from gpulsh.io.files.readers import Reader
from gpulsh.params import check_type, is_path, shown, shown_type
from gpulsh.repeats.benchmark import Overlap
from gpulsh.run.engines import EngineName
from gpulsh.run.key_rule import refuse_policies
from gpulsh.run.output.paths import Folders

Input = str | os.PathLike[str]


def paths(name: str, inputs: Input | Sequence[Input]) -> list[str]:
    """INPUTs as strings; an error if they are not paths."""
    given = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    if not isinstance(given, (list, tuple)):
        raise InputTypeError(f"{name} is {shown_type(given)}; give a path or a list of paths")
    if not given:
        raise ParameterError(f"{name} is empty; give at least one file, folder, glob or URL")
    for place, path in enumerate(given):
        if not is_path(path):
            raise InputTypeError(f"{name}[{place}] is {shown_type(path)}; give a path")
    return [os.fspath(path) for path in given]


def is_given(paths: object) -> bool:
    """Whether any are given. Values that are not paths become errors later."""
    return not isinstance(paths, (str, list, tuple, NoneType)) or bool(paths)


def check_flags(**flags: object) -> None:
    """ParameterError for a flag that is not True or False."""
    for name, flag in flags.items():
        check_type(name, flag, bool)


def check_renewal(overwrite: object, resume: object) -> None:
    """ParameterError unless one of both at most is True."""
    check_flags(overwrite=overwrite, resume=resume)
    if overwrite and resume:
        raise ParameterError(
            "overwrite and resume are both given; give --resume to continue the finished part, or --overwrite to begin"
            " anew"
        )


def check_columns(**columns: object) -> None:
    """ParameterError for a column that is no name."""
    for name, column in columns.items():
        if not isinstance(column, (str, NoneType)):
            raise ParameterError(f"{name} is {shown(column)}; give the name of a column")


def refuse_without_rows(retention: Retention, **given: object) -> None:
    """ParameterError for options about rows if write is "duplicates"."""
    if retention.min_sources > 1:
        raise ParameterError(
            f"min_sources is {retention.min_sources} and write is 'duplicates', which does not list what is left out;"
            " leave one of them out"
        )
    for name, value in given.items():
        if value is not None:
            raise ParameterError(
                f"{name} is {value!r} and write is 'duplicates', which writes no rows; leave one of them out"
            )


def refuse_with_key(retention: Retention, *, across: bool, reader: Reader) -> None:
    """ParameterError for parameters that a key cannot combine with."""
    if across:  # the first document with a key may itself be dropped for one of the INPUT that its copy is of
        raise ParameterError("key and across cannot be combined; leave one of them out")
    if reader == "cudf":
        raise ParameterError("key is given, and reader is 'cudf', which reads no keys; give --reader arrow")
    refuse_policies(retention)


def overlap_chosen(
    guarded: Sequence[str], passages: int | None, coverage: float, ignore_common: int | None
) -> Overlap | None:
    """The rule by which documents that hold protected ones are dropped; ParameterError if it lacks a part."""
    if passages is None:
        is_usual = isinstance(coverage, float) and coverage == 0.8
        for name, is_there in {"ignore_common": ignore_common is not None, "coverage": not is_usual}.items():
            if is_there:
                raise ParameterError(f"{name} is given without passages; give --passages, such as 13")
        return None
    if not guarded:
        raise ParameterError("passages is given without protect; give --protect, the files of the test set")
    return Overlap.chosen("passages", passages, coverage, ignore_common)


def refuse_dry_run(folders: Folders, engine: EngineName, inputs: Sequence[str]) -> None:
    """ParameterError or InputError for anything that a dry run cannot check without doing it."""
    if folders.is_remote:
        raise ParameterError(f"--dry-run checks only local folders, and output is {folders.output!r}; give one")
    if engine != "local":
        raise ParameterError(f"--dry-run checks only this machine, and engine is {engine!r}; leave out one of them")
    if folders.index is not None:
        raise ParameterError("--dry-run cannot know the effect of an index; leave out one of them")
    for given in inputs:
        if is_stream(given):
            raise InputError(f"{given}: can be read only once, and --dry-run would read it; give a file")
