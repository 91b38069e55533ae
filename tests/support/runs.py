"""Runs over files by the reference backend, and their evidence."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gpulsh.run.files import FilesResult, deduplicate_files

SOAK = "GPULSH_EVERY_CUT" in os.environ  # ./ci/soak runs more of the slow cases


def run(inputs: Any, out: str | Path = "out", **options: Any) -> FilesResult:
    """`deduplicate_files` by the backend without compilation, unless `options` name another."""
    return deduplicate_files(inputs, out, **{"backend": "reference", **options})


def evidence(out: str | Path) -> list[dict[str, Any]]:
    return pq.read_table(f"{out}/duplicates.parquet").to_pylist()


def below(folder: str | Path) -> set[str]:
    """The files below a folder, by their paths in it."""
    return {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}


def tree(folder: str | Path = ".") -> dict[str, str]:
    """Every name below a folder, its links as such, and the content of files."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        content = f"-> {os.readlink(path)}" if path.is_symlink() else ""
        found[path.relative_to(folder).as_posix()] = content or (path.read_text("latin-1") if path.is_file() else "")
    return found


def small_partitions(patch: pytest.MonkeyPatch, size: int) -> None:
    """A partition, and each piece read in parallel, has at most so many bytes."""
    for name, value in (("PARTITION_BYTES", size), ("PARTITION_BATCHES", 0), ("PARALLEL_BYTES", size)):
        patch.setattr(f"gpulsh.budget.{name}", value)


def environment() -> dict[str, str]:
    """The environment of a process that runs these sources, wherever it starts."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def python(code: str, *arguments: object, **variables: str) -> str:
    """The output of another process that runs `code` beside these sources; it must succeed."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env={**environment(), **variables})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def interrupted(*_: object, **__: object) -> Any:
    """Raise Ctrl-C's exception, in place of another function."""
    raise KeyboardInterrupt


@contextmanager
def interrupting(function: str = "write_evidence") -> Iterator[None]:
    """Inside, Ctrl-C comes at the call of that function, of `run.driver` or by its full name."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(function if "." in function else f"gpulsh.run.driver.{function}", interrupted)
        yield
