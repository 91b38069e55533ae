"""A single file that a command writes: one that is there already stays, unless gpulsh wrote it and may replace it."""

from __future__ import annotations

import json
import os
import stat

import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh import __version__
from gpulsh.errors import OutputError
from gpulsh.io.files.results import MARK

FIRST_LINE = 1 << 20  # bytes


def marked(schema: pa.Schema) -> pa.Schema:
    """The schema of a Parquet file that gpulsh knows as its own."""
    return schema.with_metadata({**(schema.metadata or {}), MARK: __version__})


def refuse_present(output: str | os.PathLike[str], *, overwrite: bool, columns: tuple[str, ...] = ()) -> None:
    """OutputError where a file is there, but with `overwrite` one of gpulsh's: Parquet that is `marked`, or JSON lines
    with these `columns`.
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
        if name.endswith(".jsonl"):
            with open(name, "rb") as file:
                line = file.readline(FIRST_LINE)
            return not line or tuple(json.loads(line)) == columns
        with pa.OSFile(os.fsencode(name), "rb") as source:
            return MARK.encode() in (pq.read_metadata(source).metadata or {})
    except (OSError, ValueError, TypeError, RecursionError, pa.ArrowException):
        return False
