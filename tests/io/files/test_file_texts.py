"""Files and pieces read by several threads within a bound of bytes: what one reads, in the same order."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpulsh.io.columns import Columns
from gpulsh.io.files import file_texts
from gpulsh.io.files.file_texts import FileTexts, PartitionFacts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.read_ahead import read_ahead
from gpulsh.io.formats.parquet import Parquet
from tests.support.files import write_rows


def write_files(folder: Path) -> list[str]:
    """Parquet files of many small row groups, with one of another format between them."""
    rows = [None if i % 11 == 0 else f"document {i} " * (i % 7) for i in range(300)]
    names = ["a.parquet", "b.parquet", "c.jsonl", "d.parquet"]
    starts = (0, 100, 200, 210, 300)
    for name, start, stop in zip(names, starts, starts[1:], strict=False):
        texts = pa.array(rows[start:stop], pa.string())
        write_rows(folder / name, pa.table({"text": texts, "score": np.arange(stop - start)}), 7)
    return [str(folder / name) for name in names]


def read(names: list[str], readers: int) -> tuple[bytes, FileTexts, PartitionFacts]:
    texts = FileTexts(find_files(names), Columns(text="text", key="score"), readers)
    (everything,) = texts.partitions(1 << 30)
    facts = PartitionFacts()
    batches = texts.read(everything.pieces, 200, facts)
    found = b"".join(bytes(b.values[b.offset[0] : b.offset[-1]]) for b in batches)
    texts.add(facts)
    return found, texts, facts


def test_several_readers_read_what_one_reads(tmp_path: Path) -> None:
    names = write_files(tmp_path)
    wanted, one, of_one = read(names, 1)
    for readers in (2, 5):
        found, several, of_several = read(names, readers)
        assert found == wanted
        assert several.starts.tolist() == one.starts.tolist() == [0, 100, 200, 210, 300]
        assert np.concatenate(of_several.sizes).tolist() == np.concatenate(of_one.sizes).tolist()
        assert several.nulls() == one.nulls() == 28
        assert [value for block in of_several.keys for value in pa.array(block).to_pylist()] == [
            value for block in of_one.keys for value in pa.array(block).to_pylist()
        ]


@pytest.mark.parametrize(
    ("ahead", "threads", "block", "waiting"),
    [
        (None, 16, 8 << 20, 16 * 2 * (8 << 20)),
        (1 << 30, 16, (1 << 30) // 48, (1 << 30) // 48 * 32),
        (64 << 20, 16, (64 << 20) // 48, (64 << 20) // 48 * 32),
        (9 << 20, 3, 1 << 20, 6 << 20),
        (1 << 20, 2, 1 << 20, 0),  # less than two threads can do with
    ],
)
def test_what_is_read_ahead_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int | None, threads: int, block: int, waiting: int
) -> None:
    """Blocks that are being read and blocks that wait."""
    asked: list[Any] = []

    def read_ahead(pieces: Any, read: Any, size: Any, threads: int, most_bytes: int) -> Any:
        asked.append((threads, most_bytes))
        return (found for piece in pieces for found in read(piece))

    def read_part(self: Any, file: Any, columns: Any, part: Any, block_bytes: int, rules: Any) -> Any:
        asked.append(block_bytes)
        return iter(())

    names = write_files(tmp_path)[:1]
    monkeypatch.setattr(file_texts, "read_ahead", read_ahead)
    monkeypatch.setattr(Parquet, "read_part", read_part)
    list(FileTexts(find_files(names), Columns(text="text"), 16, ahead=ahead).batches(128 << 20 if ahead else 200))
    (of_readers, *blocks) = asked
    assert set(blocks) == {block} and of_readers[0] == threads
    assert abs(of_readers[1] - waiting) <= 48
    assert ahead is None or threads * block + of_readers[1] <= max(ahead, 2 << 20)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("most", [0, 10, 1000])
def test_in_order_and_within_the_bound(threads: int, most: int) -> None:
    rng = random.Random(7)
    pieces = [[rng.randrange(8) for _ in range(rng.choice([0, 1, 3, 40]))] for _ in range(30)]
    lock = threading.Lock()
    held = peak = 0

    def read(piece: list[int]) -> Iterator[tuple[int, int]]:
        nonlocal held, peak
        for place, size in enumerate(piece):
            with lock:
                held += size
                peak = max(peak, held)
            if rng.random() < 0.1:
                time.sleep(0.001)
            yield place, size

    found = []
    for place, size in read_ahead(iter(pieces), read, lambda block: block[1], threads, most):
        found.append((place, size))
        with lock:
            held -= size
    assert found == [(place, size) for piece in pieces for place, size in enumerate(piece)]
    # One block in the hands of each thread and of the reader, and one more of the piece that is asked for.
    assert peak <= most + 8 * (threads + 2)


def test_an_error_comes_in_its_place() -> None:
    def read(piece: int) -> Iterator[int]:
        yield piece
        if piece == 2:
            raise ValueError("broken")

    found = []
    with pytest.raises(ValueError, match="broken"):
        for block in read_ahead(range(5), read, lambda _: 1, 3, 100):
            found.append(block)
    assert found == [0, 1, 2]


def test_the_threads_stop_with_the_reader() -> None:
    before = threading.active_count()

    def read(piece: int) -> Iterator[int]:
        while True:
            yield piece

    blocks = read_ahead(range(100), read, lambda _: 1, 4, 10)
    assert [next(blocks) for _ in range(50)] == [0] * 50
    blocks.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
