"""Several threads read files and pieces within a bound of bytes: the same texts in the same order as one thread."""

import random
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.budget import MIN_HOLDING, held_bytes
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files import file_texts
from gpulsh.io.files.file_texts import BLOCK_COST, OFFSET_BYTES, FileTexts, HeldTexts, PartitionFacts, Piece
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.read_ahead import read_ahead
from gpulsh.io.format import Block
from gpulsh.io.formats import parquet
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.parquet import Parquet
from gpulsh.io.rows import Rows
from gpulsh.io.stamps import Stamps
from gpulsh.ragged import offsets
from gpulsh.run import file_run
from gpulsh.run.engines import local as in_process
from gpulsh.run.files import deduplicate_files
from gpulsh.run.index.jobs import keys_of_files
from tests.crash.test_resume import results
from tests.support.files import read_rows, write_rows

FILES = 1000


def write_files(folder: Path) -> list[str]:
    """Write Parquet files of many small row groups, and one of another format among them."""
    rows = [None if i % 11 == 0 else f"document {i} " * (i % 7) for i in range(300)]
    names = ["a.parquet", "b.parquet", "c.jsonl", "d.parquet"]
    starts = (0, 100, 200, 210, 300)
    for name, start, stop in zip(names, starts, starts[1:], strict=False):
        texts = pa.array(rows[start:stop], pa.string())
        write_rows(folder / name, pa.table({"text": texts, "score": np.arange(stop - start)}), 7)
    return [str(folder / name) for name in names]


def read(names: list[str], readers: int) -> tuple[bytes, FileTexts, PartitionFacts]:
    texts = FileTexts(find_files(names), Columns(text="text", order="score"), readers)
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
        assert of_several.nulls == of_one.nulls == 28
        assert np.concatenate(of_several.order).tolist() == np.concatenate(of_one.order).tolist()


def test_work_on_one_file_does_not_grow_with_their_number(tmp_path: Path) -> None:
    texts = FileTexts(find_files(write_files(tmp_path)), Columns(text="text", id="score"))
    assert sum(map(len, texts.batches(1 << 20))) == 300
    assert texts.column_types("score") == [pa.int64()]  # each type once
    with mock.patch.object(file_texts, "offsets", wraps=offsets) as sums:
        assert sum(map(len, keys_of_files(texts))) == 300
    assert sums.call_count == 1 and texts.starts.tolist() == [0, 100, 200, 210, 300]


def test_partitions_end_at_their_most_bytes_or_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "RUN_ROWS", 7)
    write_rows(tmp_path / "a.parquet", [f"text {row:04}" for row in range(70)], 7)
    texts = FileTexts(find_files([str(tmp_path)]), Columns("text"))

    def sizes(*limits: int) -> list[int]:
        return [sum(piece.part.rows for piece in each.pieces if piece.part) for each in texts.partitions(*limits)]

    assert sizes(1 << 20) == [70]
    assert sizes(1 << 20, 0, 30) == [28, 28, 14]
    assert sizes(1 << 20, 0, 1) == [7] * 10  # a piece is not divided
    assert len(sizes(250, 0, 30)) > 3


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("most", [0, 10, 1000])
def test_read_ahead_keeps_the_order_and_its_bound(threads: int, most: int) -> None:
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
    # One block for each thread and for the reader, and one more of the requested piece.
    assert peak <= most + 8 * (threads + 2)


@pytest.mark.parametrize("ahead", [None, 1 << 20, 9 << 20, 64 << 20, 1 << 30])
def test_read_ahead_fits_the_budget(ahead: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget covers the blocks being read and the waiting ones together."""
    asked: list[int] = []

    def read_ahead(pieces: Any, read: Any, size: Any, threads: int, waiting: int) -> Any:
        asked.extend([threads, waiting])
        return (found for piece in pieces for found in read(piece))

    def read_blocks(self: Any, file: Any, columns: Any, wanted: Any = None, rules: Any = None) -> Any:
        asked.append(rules.block_bytes)
        return iter(())

    names = write_files(tmp_path)[:1]
    monkeypatch.setattr(file_texts, "read_ahead", read_ahead)
    monkeypatch.setattr(Parquet, "read", read_blocks)
    list(FileTexts(find_files(names), Columns(text="text"), 16, ahead=ahead).batches(128 << 20 if ahead else 200))
    threads, waiting, *blocks = asked
    assert (blocks and threads == 16) or (ahead is not None and 2 <= threads <= ahead >> 19)
    assert threads * max(blocks) + waiting <= max(ahead or 3 * 16 * (8 << 20), 2 << 20)
    assert waiting >= 2 * threads * (max(blocks) - 1) or ahead == 1 << 20  # so that all threads have something to do


def test_an_error_is_raised_at_its_block() -> None:
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


# --- texts that stay in memory from one stage to the next: what is held, and that no reading is missed ---


@pytest.mark.parametrize("seed", range(300))
def test_held_texts_are_whole_pieces_within_the_budget(seed: int) -> None:
    """A piece may be read again after a failed reader, or by another stage."""
    draw = random.Random(seed)
    room = draw.randrange(6)
    held = HeldTexts(room * (1 + OFFSET_BYTES + BLOCK_COST))
    begun: dict[int, list[tuple[int, bytes]]] = {0: [], 1: []}
    whole: dict[int, list[tuple[int, bytes]]] = {}
    dropped: set[int] = set()  # for lack of room, or after the texts were closed
    for place in range(draw.randrange(14)):
        step, number = draw.choice(["add"] * 8 + ["again"] * 3 + ["complete"] * 3 + ["close"]), draw.randrange(2)
        piece, taken = Piece(number, None), number not in dropped and number not in whole
        if step == "close":
            held.close()
            whole, dropped = {}, {0, 1}
        elif step == "complete":
            held.complete(piece)
            if taken and begun[number]:
                whole[number], begun[number] = begun[number], []
        else:
            start = 0 if step == "again" else len(begun[number])
            held.add(piece, start, arrow_rows(pa.array([chr(65 + place)])))
            if taken:
                begun[number] = [*begun[number][:start], (start, chr(65 + place).encode())]
            if sum(map(len, [*begun.values(), *whole.values()])) > room:
                begun[number] = []
                dropped.add(number)
    found = {number: held.find(Piece(number, None)) for number in (0, 1)}
    assert {
        number: [(start, bytes(text)) for start, some in blocks for text in some.pieces(np.arange(len(some)))]
        for number, blocks in found.items()
        if blocks is not None
    } == whole
    beginnings = held.beginnings([(number, row) for number in (0, 1) for row in range(20)], 3)
    assert beginnings == {(number, start): text for number, blocks in whole.items() for start, text in blocks}


def test_chosen_texts_come_from_memory_while_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "RUN_ROWS", 7)
    path = tmp_path / "a.parquet"
    write_rows(path, [f"text {row}" for row in range(20)], 7)
    held = HeldTexts(1 << 20)
    source = FileTexts([File(str(path), "a.parquet", str(path))], Columns("text"), held=held)
    partitions = source.partitions(1)
    for partition in partitions:
        list(source.read(partition.pieces, 1 << 20, PartitionFacts()))
    path.unlink()
    wanted, piece = np.array([0, 1, 0, 0, 0, 0, 1], np.bool_), partitions[1].pieces[0]
    for _ in range(2):
        (found,) = source.read_rows(piece, wanted)
        assert [bytes(text) for text in found] == [b"text 8", b"text 13"]
    held.close()
    with pytest.raises(gpulsh.errors.InputError):
        list(source.read_rows(piece, wanted))


def test_rows_before_an_empty_batch_are_kept(tmp_path: Path) -> None:
    """An empty record batch dropped the rows before it, as if its piece were read again."""
    text, schema = "one two three four five six", pa.schema([("text", pa.string())])
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), schema) as out:
        for rows in ([text, "some other words"], [], [], [text + " seven", None]):
            out.write_batch(pa.record_batch([rows], schema=schema))
    found = deduplicate_files(tmp_path / "a.arrow", tmp_path / "out", backend="cpu", threshold=0.6, shingling="word:1")
    assert (found.funnel["documents"], found.funnel["dropped"]) == (4, 1)


def test_text_sizes_beyond_32_bits_stay_integers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = np.full(100, 5 << 30)

    class Large(Rows):
        def __len__(self) -> int:
            return len(sizes)

        def lengths(self) -> NDArray[np.int64]:
            return sizes

        def null_rows(self) -> NDArray[np.bool_]:
            return sizes < 0

        def slices(self, max_bytes: int) -> Iterator[TextBatch]:
            return iter(())

    monkeypatch.setattr(JsonLines, "read", lambda *given, **how: iter([Block(0, Large())]))
    facts, path = PartitionFacts(), str(tmp_path / "a.jsonl")
    list(FileTexts([File(path, path, path)], Columns("text")).read([Piece(0, None)], 1 << 20, facts))
    assert np.concatenate([np.zeros(0, np.int64), *facts.sizes]).dtype == np.int64 and facts.bytes == sizes.sum()


def test_a_small_file_takes_less_than_750_bytes_of_memory(tmp_path: Path) -> None:
    """A run over a million files holds their names, their stamps and their texts."""
    for number in range(FILES):
        (tmp_path / f"{number:05d}.txt").write_bytes(b"%0100d" % number)
    tracemalloc.start()
    files, held = find_files([str(tmp_path)]), HeldTexts(1 << 30)
    source = FileTexts(files, Columns("text"), stamps=Stamps.of(files), held=held)
    source.check()
    (everything,) = source.partitions(1 << 30)
    for batch in source.read(everything.pieces, 1 << 20, PartitionFacts()):
        del batch
    taken = tracemalloc.get_traced_memory()[0] / FILES
    tracemalloc.stop()
    assert held.beginnings([(7, 0)], 1 << 10) == {(7, 0): b"%0100d" % 7}
    assert taken - 100 < 750, taken
    assert held_bytes(MIN_HOLDING - 1) == 0 and held_bytes(8 << 30) == 512 << 20  # a small budget holds none


def corpus(folder: Path) -> Path:
    """Files of pages with some near-copies: with other columns before and after, and without."""
    source = random.Random(3)
    pages = [" ".join(f"w{source.randrange(1000)}" for _ in range(40)) for _ in range(60)]
    pages += [page + " more" for page in pages[::2]]
    for number, kind in enumerate(["string", "large_string", "binary"]):
        texts = pa.array([None if row % 9 == 0 else page for row, page in enumerate(pages[number::3])], kind)
        rows = range(len(texts))
        others = {"list": [[row] for row in rows], "word": pa.array(["a" for _ in rows]).dictionary_encode()}
        table = pa.table({"before": rows, "text": texts, **others} if number else {"text": texts})
        write_rows(folder / f"{number}.parquet", table, 14)
    return folder


def calls_of(monkeypatch: pytest.MonkeyPatch, kind: Any, name: str) -> list[Any]:
    """Record the arguments of each later call of a method."""
    calls: list[Any] = []
    own = getattr(kind, name)
    monkeypatch.setattr(kind, name, lambda self, *given, **how: calls.append(given) or own(self, *given, **how))
    return calls


@pytest.mark.parametrize(("kind", "threads"), [("jsonl", 1), ("parquet", 1), ("parquet", 2)])
def test_held_texts_are_decoded_once(kind: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = corpus(tmp_path / "parquet")
    if kind == "jsonl":
        rows = [row["text"] for row in read_rows(inputs / "1.parquet")]
        inputs = tmp_path / "in"
        for name, end in (("a", ""), ("b", " more")):
            write_rows(inputs / f"{name}.jsonl", [text and text + end for text in rows])
    read = calls_of(monkeypatch, JsonLines if kind == "jsonl" else Parquet, "read")
    monkeypatch.setattr(file_run, "missing_requirement", lambda: "tested elsewhere")
    found = []
    for held in (1 << 20, 0):
        monkeypatch.setattr(in_process, "held_bytes", lambda *_, held=held, **__: held)
        deduplicate_files(inputs, tmp_path / f"out-{held}", backend="cpu", threads=threads)
        found.append((results(tmp_path / f"out-{held}"), len(read)))
        read.clear()
    (with_held, once), (without, twice) = found
    assert with_held == without and twice == 2 * once > 0


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("write", ["data", "duplicates"])
def test_the_report_shows_held_texts_without_reading_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, write: Any
) -> None:
    path = write_rows(tmp_path / f"a.{ending}", ["one text", "another text", "one text", "one Text!"])
    read = calls_of(monkeypatch, type(format_of(File(path, path, path))), "read")
    result = deduplicate_files(path, tmp_path / "out", write=write, backend="reference", memory="1GiB")
    (cluster,) = result.report["evidence"]["clusters"]["sample"]
    assert [pair["texts"] for pair in cluster["pairs"]] == [["one text", "one text"], ["one Text!", "one text"]]
    assert len(read) == 1
