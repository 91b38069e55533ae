"""What each part of a file takes does not grow with their number: lines of Python are counted, not seconds."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import gpulsh
from benchmarks.corpora.many_parts import FILES

PARTS = 30
OURS = os.path.dirname(gpulsh.__file__)
MOST_GROWTH = 2.1  # 2 where the work is linear, 4 where it grows with the square
FEW_LINES = 10  # of a part: compiled loops take none, and what else differs is chance


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of gpulsh run, each turn of a loop anew."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if event == "call" and not frame.f_code.co_filename.startswith(OURS):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]
    return count


@pytest.mark.parametrize("name", FILES)
def test_work_doubles_with_the_parts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr("gpulsh.run.files.missing", lambda: "tested elsewhere")
    make, ending, _ = FILES[name]
    counts = []
    for parts in (1, PARTS, 2 * PARTS, 4 * PARTS):  # the first one warms up
        path, out = tmp_path / f"{parts}{ending}", tmp_path / f"out-{parts}"
        make(path, parts)
        run = lambda path=path, out=out: gpulsh.deduplicate_files(path, out, backend="cpu", threads=1)  # noqa: E731
        counts.append(lines_run(run))
    _, one, two, four = counts
    assert four - two <= MOST_GROWTH * (two - one) + FEW_LINES * PARTS
