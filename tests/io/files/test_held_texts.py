"""Texts that stay in memory from one stage to the next: what is held, what is let go, and that no reading is missed."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.budget import LEAST_HOLDING, held_bytes
from gpulsh.io.arrow.rows import arrow_rows
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import BLOCK_COST, OFFSET_BYTES, FileTexts, HeldTexts, PartitionFacts, Piece
from gpulsh.io.formats import parquet
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.parquet import Parquet
from gpulsh.io.rows import Rows
from gpulsh.run import files as local
from gpulsh.run.engines import local as in_process
from gpulsh.run.files import deduplicate_files
from tests.crash.test_resume import results
from tests.support.files import read_rows, write_rows

PIECES = [Piece(number, None) for number in range(3)]
ROOM = 2 * (3 + OFFSET_BYTES + BLOCK_COST)  # for two texts of three letters


def rows(*texts: str) -> Rows:
    return arrow_rows(pa.array(texts))


def feed(held: HeldTexts, piece: int, *texts: str, whole: bool = True) -> None:
    """A piece is read, each text a block, to its end or not."""
    for row, text in enumerate(texts):
        held.add(PIECES[piece], row, rows(text))
    if whole:
        held.complete(PIECES[piece])


def blocks(held: HeldTexts, piece: int) -> list[tuple[int, list[bytes]]] | None:
    found = held.find(PIECES[piece])
    return found and [(start, [bytes(text) for text in some.pieces(np.arange(len(some)))]) for start, some in found]


def test_only_whole_pieces_are_given() -> None:
    held = HeldTexts(10_000)
    held.add(PIECES[0], 5, rows("one", "two"))
    held.add(PIECES[0], 7, rows("three"))
    assert blocks(held, 1) is None
    feed(held, 1, "of b", whole=False)
    held.complete(PIECES[0])
    assert blocks(held, 0) == [(5, [b"one", b"two"]), (7, [b"three"])] and blocks(held, 1) is None
    places = [(0, 4), (0, 5), (0, 7), (0, 8), (1, 0), (2, 0)]
    assert held.beginnings(places, 3) == {(0, 5): b"one", (0, 7): b"thr"}


def test_a_piece_that_is_read_again_is_held_once() -> None:
    """After a reader that failed, and by another stage."""
    held = HeldTexts(10_000)
    feed(held, 0, "one", whole=False)
    for _ in range(2):
        feed(held, 0, "one", "two")
    assert blocks(held, 0) == [(0, [b"one"]), (1, [b"two"])]


@pytest.mark.parametrize(("first", "there"), [(["abc"], [True, True, False]), (["abc"] * 3, [False, True, True])])
def test_no_more_is_held_than_was_said(first: list[str], there: list[bool]) -> None:
    """A piece for whose end there is no room makes room."""
    held = HeldTexts(ROOM)
    for number, texts in enumerate((first, ["abc"], ["abc"])):
        feed(held, number, *texts)
    assert [blocks(held, number) is not None for number in range(3)] == there


def test_when_closed_nothing_is_held() -> None:
    held = HeldTexts(10_000)
    feed(held, 0, "one")
    feed(held, 1, "two", whole=False)
    held.close()
    held.complete(PIECES[1])
    feed(held, 2, "three")
    assert [blocks(held, number) for number in range(3)] == [None, None, None]


def test_chosen_texts_are_those_that_were_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "RUN_ROWS", 7)
    path = tmp_path / "a.parquet"
    texts = [f"text {row}" for row in range(20)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=7)
    held = HeldTexts(1 << 20)
    source = FileTexts([File(str(path), "a.parquet", str(path))], Columns("text"), held=held)
    partitions = source.partitions(1)
    for partition in partitions:
        list(source.read(partition.pieces, 1 << 20, PartitionFacts()))
    path.unlink()
    chosen, piece = np.array([8, 13]), partitions[1].pieces[0]
    for _ in range(2):
        (found,) = source.chosen(piece, chosen, len(texts))
        assert [bytes(text) for text in found] == [b"text 8", b"text 13"]
    held.close()
    with pytest.raises(gpulsh.errors.InputError):
        list(source.chosen(piece, chosen, len(texts)))


def corpus(folder: Path) -> Path:
    """Files of pages, of which some are near-copies, with other columns before and behind them, and without."""
    source = random.Random(3)
    pages = [" ".join(f"w{source.randrange(1000)}" for _ in range(40)) for _ in range(60)]
    pages += [page + " more" for page in pages[::2]]
    folder.mkdir()
    for number, kind in enumerate(["string", "large_string", "binary"]):
        texts = pa.array([None if row % 9 == 0 else page for row, page in enumerate(pages[number::3])], kind)
        others = {
            "list": [[row] for row in range(len(texts))],
            "word": pa.array(["a"] * len(texts)).dictionary_encode(),
        }
        table = pa.table({"before": np.arange(len(texts)), "text": texts, **others} if number else {"text": texts})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=14)
    return folder


def test_files_that_are_read_in_order_are_read_to_be_signed_and_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [row["text"] for row in read_rows(corpus(tmp_path / "parquet") / "1.parquet")]
    inputs = tmp_path / "in"
    for name, end in (("a", ""), ("b", " more")):
        write_rows(inputs / f"{name}.jsonl", [text and text + end for text in texts])
    read: list[Any] = []
    own = JsonLines.read
    monkeypatch.setattr(JsonLines, "read", lambda self, *of, **how: read.append(of) or own(self, *of, **how))
    monkeypatch.setattr(local, "missing", lambda: "tested elsewhere")
    found = []
    for held in (1 << 20, 0):
        monkeypatch.setattr(in_process, "held_bytes", lambda *_, held=held, **__: held)
        out = tmp_path / f"out-{held}"
        deduplicate_files(inputs, out, backend="cpu", threads=1)
        found.append((results(out), len(read)))
        read.clear()
    (with_held, decoded), (without, again) = found
    assert with_held == without
    assert (decoded, again) == (2, 4)


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_the_same_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    inputs = corpus(tmp_path / "in")
    read: list[Any] = []
    read_part = Parquet.read_part
    monkeypatch.setattr(Parquet, "read_part", lambda self, *given: read.append(given) or read_part(self, *given))
    iterate = pq.ParquetFile.iter_batches
    columns: list[Any] = []

    def iter_batches(self: pq.ParquetFile, *given: Any, **named: Any) -> Any:
        columns.append(named["columns"])
        return iterate(self, *given, **named)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    found = []
    for held in (1 << 20, 0):
        monkeypatch.setattr(in_process, "held_bytes", lambda *_, held=held, **__: held)
        out = tmp_path / f"out-{held}"
        deduplicate_files(inputs, out, backend="cpu", threads=threads)
        found.append((results(out), len(read), [names for names in columns if names is None or "text" in names]))
        read.clear()
        columns.clear()
    (with_held, decoded, once), (without, again, twice) = found
    assert with_held == without
    assert again == 2 * decoded
    assert once == [["text"]] * decoded and None in twice


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("write", ["data", "duplicates"])
def test_the_report_shows_held_texts_and_reads_none_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, write: Any
) -> None:
    path = write_rows(tmp_path / f"a.{ending}", ["one text", "another text", "one text", "one Text!"])
    read: list[Any] = []
    kind = type(format_of(File(path, path, path)))
    own = kind.read
    monkeypatch.setattr(kind, "read", lambda self, *of, **how: read.append(of) or own(self, *of, **how))
    result = deduplicate_files(path, tmp_path / "out", write=write, backend="reference", memory="1GiB")
    (cluster,) = result.report["evidence"]["clusters"]["sample"]
    assert [pair["texts"] for pair in cluster["pairs"]] == [["one text", "one text"], ["one Text!", "one text"]]
    assert len(read) == (0 if ending == "parquet" else 1)


def test_a_small_budget_holds_nothing() -> None:
    assert held_bytes(LEAST_HOLDING - 1) == 0
    assert held_bytes(8 << 30) == 512 << 20
