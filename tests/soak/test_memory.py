"""`--memory` holds for the whole process, for any size of input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.corpora import random_words
from benchmarks.tree_memory import TreeMemory

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/PID/smaps_rollup is Linux's")

BUDGET = 512 << 20


@pytest.mark.parametrize(("documents", "words"), [(2_000_000, 6), (210_000, 386)])
def test_a_run_stays_within_its_budget(tmp_path: Path, documents: int, words: int) -> None:
    """Digests of 2 million documents alone are 672 MB with their numbers, and 210,000 pages 567 MB of text."""
    source = random_words.make(tmp_path / "in.parquet", documents, words)
    command = [sys.executable, "-m", "gpulsh", "dedup", str(source), "-o", str(tmp_path / "out"), "--json"]
    with subprocess.Popen(
        [*command, "--memory", str(BUDGET), "--backend", "cpu"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        with TreeMemory(process.pid, 0.05) as watched:
            printed, _ = process.communicate()
        assert process.returncode == 0
    funnel = json.loads(printed)["funnel"]
    assert funnel["documents"] == documents and funnel["dropped"] > documents // 20
    assert 64 << 20 < watched.peak <= BUDGET * 11 // 10


def test_a_document_that_takes_too_much_memory_ends_the_stage_in_one_line(tmp_path: Path) -> None:
    """A document of 100 MB is within the budget, and the reference takes many times as much for it."""
    (tmp_path / "a.txt").write_bytes(b"some words " * 10_000_000)
    command = [sys.executable, "-m", "gpulsh", "dedup", str(tmp_path / "a.txt"), "-o", str(tmp_path / "out")]
    command += ["--memory", str(BUDGET), "--backend", "reference"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    *_, last = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert last.startswith("gpulsh: error: sign: needs more memory than the") and last.endswith("a larger --memory")
    assert not (tmp_path / "out").exists()
