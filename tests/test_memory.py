"""`--memory` holds for the whole process, whatever the input's size."""

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


@pytest.mark.parametrize(("documents", "words"), [(2_000_000, 6), (250_000, 386)])
def test_a_run_stays_within_its_budget(tmp_path: Path, documents: int, words: int) -> None:
    """Digests of 2 million documents alone are 672 MB with their numbers, and 250,000 pages 675 MB of text."""
    source = random_words.make(tmp_path / "in.parquet", documents, words)
    command = [sys.executable, "-m", "gpulsh", "dedup", str(source), "-o", str(tmp_path / "out"), "--json"]
    with subprocess.Popen(
        [*command, "--memory", str(BUDGET), "--backend", "cpu"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        with TreeMemory(process.pid) as watched:
            printed, _ = process.communicate()
        assert process.returncode == 0
    funnel = json.loads(printed)["funnel"]
    assert funnel["documents"] == documents and funnel["dropped"] > documents // 20
    assert 64 << 20 < watched.peak <= BUDGET * 11 // 10
