"""`--memory` holds for the whole process, at any size of input; and large documents take little beside their text."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.corpora import random_words
from benchmarks.tree_memory import TreeMemory
from gpulsh.backends.cpu import CpuBackend
from gpulsh.io.arrow.copy_keys import checked_copy_keys
from gpulsh.io.arrow.validation import checked_column
from gpulsh.params import Shingling
from gpulsh.repeats import windows
from gpulsh.run.engines import local
from gpulsh.run.engines.local import LocalRunner
from gpulsh.run.files import deduplicate_files
from gpulsh.run.job import Task
from gpulsh.run.passages import documents, find
from tests.backends.test_giants import BESIDE, FAMILY, KEYS, ONE, SHAPE, batch_of, same
from tests.decide.test_large_buckets import joined, pages
from tests.run.test_passages_files import find_passages
from tests.support.files import write_rows
from tests.support.traced import at_most

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/PID/smaps_rollup is Linux's")

BUDGET = 512 << 20


@pytest.mark.parametrize(("documents", "words"), [(2_000_000, 6), (210_000, 386)])
def test_a_run_stays_within_its_budget(tmp_path: Path, documents: int, words: int) -> None:
    """Digests and numbers of 2 million documents take 672 MB, and 210,000 pages have 567 MB of text."""
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


@pytest.mark.timeout(1200)  # two minutes alone, and tests share the cores
@pytest.mark.parametrize("options", ["--tokens 5", "--unit line"])
def test_a_line_in_millions_of_documents_stays_within_budget(options: str, tmp_path: Path) -> None:
    """A number for each document of the file takes 80 MB; each stage held several such lists."""
    documents = 10_000_000
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "this line has six words"}\n' * documents)
    command = [sys.executable, "-m", "gpulsh", "passages", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out")]
    command += ["--memory", str(BUDGET), "--backend", "cpu", "--threads", "2", *options.split()]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process, TreeMemory(process.pid, 0.05) as watched:
        assert process.wait() == 0
    marked = pq.read_metadata(tmp_path / "out" / "passages.parquet").num_rows
    assert marked == documents - (6 if "line" in options else 1)
    assert 64 << 20 < watched.peak <= BUDGET


def test_a_document_beyond_the_memory_is_one_line(tmp_path: Path) -> None:
    """A document of 100 MB is within the budget, and the reference takes many times as much for it."""
    (tmp_path / "a.txt").write_bytes(b"some words " * 10_000_000)
    command = [sys.executable, "-m", "gpulsh", "dedup", str(tmp_path / "a.txt"), "-o", str(tmp_path / "out")]
    command += ["--memory", str(BUDGET), "--backend", "reference"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    *_, last = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert last.startswith("gpulsh: error: sign: needs more memory than the") and last.endswith("a larger --memory")
    assert not (tmp_path / "out").exists()


def test_a_run_with_a_large_document_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One document may have 128 of 512 MiB; four tasks that share them allow 32 each."""
    large = 180 * "".join(f"word{number} " for number in range(20_000))
    texts = {"a": "other words", "b": large, "c": "other  words!", "d": large + "more", "e": "still other"}
    for name, text in texts.items():
        write_rows(tmp_path / f"in/{name}.jsonl", [text])
    alone: list[int] = []
    in_turn = LocalRunner._run_alone
    monkeypatch.setattr(LocalRunner, "_run_alone", lambda runner, tasks: alone.extend(tasks) or in_turn(runner, tasks))
    results = {}
    for share in (512 << 20, 128 << 20):
        monkeypatch.setattr(local, "TASK_MEMORY", share)
        result = deduplicate_files(tmp_path / "in", tmp_path / str(share), backend="cpu", threads=4, memory="512MiB")
        assert result.data is not None
        kept = {path.name: path.read_bytes() for path in result.data.iterdir()}
        results[share] = pq.read_table(result.duplicates).to_pylist(), kept
        assert len(alone) == (0 if share == 512 << 20 else 4)  # each large one is signed again and gathered again
    assert results[512 << 20] == results[128 << 20]
    assert [(row["row"], Path(row["file"]).name) for row in results[128 << 20][0]] == [(0, "c.jsonl"), (0, "d.jsonl")]


def test_a_document_of_one_letter_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has 3 million tokens; memory holds a few copies of the text, but no array with a number for each."""
    monkeypatch.setattr(documents, "PLACES_AT_ONCE", 1 << 18)
    monkeypatch.setattr(windows, "PIECE", 1 << 17)
    for name in ("RUN_SAMPLES", "RUN_WINDOWS"):
        monkeypatch.setattr(find, name, 1 << 17)
    count = 3_000_000
    pq.write_table(pa.table({"text": ["a " * count]}), tmp_path / "a.parquet")
    with at_most(20 * count):
        table = find_passages(tmp_path / "a.parquet", tmp_path / "out", tokens=50)
    assert table["tokens"].to_pylist()[:2] == [50, 50] and sum(table["tokens"].to_pylist()) == count - 50
    assert set(table["occurrences"].to_pylist()) == {count - 49}


def test_a_join_stays_within_its_budget() -> None:
    """The budget covers counts, entries, matches and a block's texts, of 5,000 pages that share nearly all."""
    texts = pages(5000, 20)
    joined(texts[:100], CpuBackend(2))  # compiled, and caches filled
    with at_most(60 << 20):
        kept, _ = joined(texts, CpuBackend(2, memory=64 << 20))
    assert 4000 < sum(kept) < 5000


# --- every pass of the CPU backend over a document of 32 MB holds little beside it ---


@pytest.mark.parametrize("unit", ["word", "char"])
def test_giants_take_little_memory_beside_their_text(unit: Any) -> None:
    shingling = Shingling(unit=unit, size=5)
    text, token = batch_of([b"a b " * (8 << 20)]), batch_of([b"x" * (32 << 20)])
    few = batch_of([b"a b " * (2 << 20)])
    for work in (
        lambda: ONE.sign(token, shingling, FAMILY, SHAPE, KEYS),
        lambda: ONE.sign(text, shingling, FAMILY, SHAPE, KEYS),
        lambda: ONE.shingle_sets(few, shingling),
        lambda: ONE.shingle_part(few, shingling, 0, 2),
        lambda: ONE.text_signatures(few, shingling, FAMILY),
        lambda: ONE.exact_hashes(few, shingling, KEYS),
    ):
        with at_most(BESIDE):
            work()


# --- columns in chunks that hold more text together than offsets of 32 bits can count ---


CHUNK = pa.Array.from_buffers(
    pa.string(),
    1,
    [None, pa.py_buffer(np.array([0, 1100 << 20], np.int32)), pa.py_buffer(np.zeros(1100 << 20, np.uint8))],
)
EMPTY = pa.chunked_array([], pa.string())


@pytest.mark.parametrize(
    "read", [lambda column: checked_column("ids", column, 2), lambda column: checked_copy_keys(column, 2)]
)
def test_chunks_beyond_2_gib_are_joined(read: Any) -> None:
    found = read(pa.chunked_array([CHUNK, CHUNK]))
    assert isinstance(found, pa.Array) and len(found) == 2 and found.buffers()[2].size >= 2200 << 20


def test_columns_without_chunks_are_empty() -> None:
    assert len(checked_column("ids", EMPTY, 0)) == len(checked_copy_keys(EMPTY, 0)) == 0
