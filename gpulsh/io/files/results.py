"""The OUT of an earlier run among INPUTs: evidence and report are no documents, what it kept lies in `data/`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from gpulsh.errors import InputError
from gpulsh.io.file import File

EVIDENCE, REPORT, DATA = "duplicates.parquet", "report.json", "data"
MARK = "gpulsh"  # the first key of report.json, which says who wrote the folder
_HEAD = re.compile(rb'\s*\{\s*"%b"\s*:' % MARK.encode())
_HEAD_BYTES = 64


def refuse_results(files: Sequence[File]) -> None:
    """InputError where a folder of the results of gpulsh is among what was found, and not only its `data/`."""
    folders: dict[tuple[int, str], dict[str, File]] = {}
    for file in files:
        folder, name = os.path.split(file.path)
        if name in (EVIDENCE, REPORT):
            folders.setdefault((id(file.filesystem), folder), {})[name] = file
    for (_, folder), found in folders.items():
        if len(found) == 2 and _is_report(found[REPORT]):
            kept = os.path.join(folder, DATA, "")
            raise _is_output(found[REPORT], any(file.path.startswith(kept) for file in files))


def _is_output(report: File, has_kept: bool) -> InputError:
    folder = os.path.dirname(report.name) or "."
    if folder != report.source.rstrip("/"):
        advice = f"move it out of {report.source}"
    elif has_kept:
        advice = f"give {folder}/{DATA}, which holds the documents"
    else:
        advice = "give the INPUT of that run, it wrote no documents"
    return InputError(f"{folder}: holds the results of `gpulsh dedup`; {advice}")


def _is_report(file: File) -> bool:
    """Whether it begins as gpulsh writes one; one that cannot be read is told of where all files are."""
    try:
        with file.open() as opened:
            return _HEAD.match(opened.read(_HEAD_BYTES)) is not None
    except Exception:  # a storage service's own exceptions share no base
        return False
