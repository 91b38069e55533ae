"""Data passed between stages: tables, the memory of parts of them, rows in ranges, and the texts of a group."""

import os
import threading
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import gpulsh
from gpulsh.arrays import SignedBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.decide import large_buckets
from gpulsh.forecast import formula
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts, PartitionFacts, Piece
from gpulsh.io.files.inputs import find_files
from gpulsh.method import Method
from gpulsh.ragged import offsets, range_order
from gpulsh.run import driver
from gpulsh.run.job import JobContext, Layout, TaskResult, step_of
from gpulsh.run.passages import documents
from gpulsh.run.passages.documents import PlacedRows
from gpulsh.run.passages.tables import FIRSTS, SAMPLES, PlaceRows, SampleRows
from gpulsh.run.records import tables
from gpulsh.run.records import texts as group_texts
from gpulsh.run.records.ranges import sorted_range
from gpulsh.run.records.tables import DIGESTS, PLACES, Table, TextPlaces
from gpulsh.run.records.texts import GroupTexts
from gpulsh.run.stages import connect, sign
from gpulsh.run.stages.sign import background_writer
from gpulsh.store.columns import column_types
from tests.support.files import write_rows
from tests.support.traced import at_most, bytes_touched


def width(table: Table[tuple[object, ...]]) -> int:
    kinds = [kind for kind in column_types(table.row).values() if kind is not None]
    return sum(4 if kind is np.signedinteger else np.dtype(kind).itemsize for kind in kinds)


def test_the_plan_counts_the_bytes_of_the_tables() -> None:
    assert (width(tables.DIGESTS), width(tables.EXACT)) == (formula.DIGEST_BYTES, formula.HASH_BYTES)
    assert (width(tables.SIZES), width(tables.PAIRS)) == (formula.SIZE_BYTES, formula.PAIR_BYTES)
    assert width(tables.PAIRS) + width(tables.GROUPS) == formula.ROUTED_PAIR_BYTES
    assert width(tables.FOREST) == formula.STAR_BYTES
    assert width(tables.MEMBERS) == formula.MEMBER_BYTES == formula.MEMBER_OF_MANY_BYTES - 4
    assert width(tables.DECISIONS) == width(tables.DECIDED) == formula.DECISION_BYTES


def test_groups_are_made_in_the_memory_that_the_plan_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This one task holds all connected documents; two a component take the most."""
    count, ops = 1 << 17, ReferenceBackend()
    documents = np.arange(count)
    columns = documents, documents & ~1, (documents & 1 == 0).astype(np.int32)
    tables.FOREST.write(tmp_path, 0, tables.ForestRows(*columns))
    monkeypatch.setattr(connect, "ROWS_AT_ONCE", 1 << 10)
    monkeypatch.setattr(connect, "sizes_of", lambda documents, *_: np.full(len(documents), 100))
    job = SimpleNamespace(cut=SimpleNamespace(group=1 << 20), method=Method.choose())
    context = cast(JobContext, SimpleNamespace(folder=tmp_path, job=job, ops=ops))
    with at_most(formula.CONNECT_BYTES * count + (1 << 18)):
        made = connect.form_groups(context, cast(Layout, range(count)), tables.Ranges(met=1))
    assert made.facts["documents"] == made.facts["meeting"] == count


PAGE = " ".join(f"word{place}" for place in range(40))


def decide_within(
    patch: pytest.MonkeyPatch, size: int, inputs: list[Path], output: Path, **given: Any
) -> dict[str, int]:
    """The funnel of a run whose tasks that find and decide near-duplicates take less than `size` bytes each."""
    done = list[str]()
    gpulsh.deduplicate([f"{PAGE} end{number}" for number in range(300)], backend="cpu", threads=2)  # caches are filled

    def measured(work: Any, *arguments: Any) -> TaskResult:
        done.append(work.__name__)
        with at_most(size):
            return cast(TaskResult, work(*arguments))

    for work in (driver.find_collisions, driver.decide_group):
        patch.setattr(driver, work.__name__, partial(measured, work))
    found = gpulsh.deduplicate_files(inputs, output, backend="cpu", threads=2, **given)
    assert {"find_collisions", "decide_group"} <= set(done)
    return cast(dict[str, int], found.funnel)


def test_near_copies_take_less_memory_than_their_memberships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is in a large bucket of each of 21 bands, 24 bytes a membership; one task decides about all of them."""
    count = 20_000
    write_rows(tmp_path / "a.jsonl", [{"text": f"{PAGE} end{number}"} for number in range(count)])
    assert decide_within(monkeypatch, 1000 * count, [tmp_path / "a.jsonl"], tmp_path / "out")["kept"] == 1


def test_near_copies_on_two_sides_take_less_memory_than_their_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, files = 1000, [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        write_rows(file, [{"text": f"{PAGE} {file.stem}{number}"} for number in range(count)])
    monkeypatch.setattr(large_buckets, "LARGEST_JOIN", 1 << 14)
    funnel = decide_within(monkeypatch, 48 * count * count, files, tmp_path / "out", across=True)
    assert funnel["kept"] == funnel["dropped"] == count and funnel["verified"] == count * count


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="the system does not tell which pages were touched")
def test_a_few_rows_are_read_without_the_others(tmp_path: Path) -> None:
    """Tasks of all groups open the files of all partitions for their own documents."""
    count = 200_000
    sources = pa.array([f"https://example.org/{row}" for row in range(count)])
    tables.SIGHTINGS.write(tmp_path, 0, tables.SightingRows(sources, np.arange(count)))
    found = tables.SIGHTINGS.read(tmp_path, 0)
    assert found.source[7].as_py() == sources[7].as_py() and found.date[7] == 7
    assert bytes_touched("sight") <= 6 << 16  # a page that is touched brings 15 neighbours along


def test_sizes_of_short_documents_take_one_byte_each(tmp_path: Path) -> None:
    """A file that is read as a whole keeps the sizes of all its documents until the end."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a b"}\n' * 10_000)
    facts = PartitionFacts()
    texts = FileTexts(find_files([str(tmp_path / "a.jsonl")]), Columns(text="text"))
    assert sum(map(len, texts.read([Piece(0, None)], 1 << 20, facts))) == 10_000
    assert sum(map(len, facts.sizes)) == 10_000 and sum(sizes.nbytes for sizes in facts.sizes) == 10_000


def test_memory_of_signed_rows_does_not_depend_on_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One band has few digests a row, but also an exact hash and a number."""
    monkeypatch.setattr(sign, "RUN_DIGESTS", 1 << 18)
    rows = 1 << 13
    one, two = np.ones((rows, 1), np.uint64), np.ones((rows, 2), np.uint64)
    signed = (SignedBatch(one.copy(), two.copy(), np.ones(rows, np.int64)) for _ in range(64))
    with at_most(10 << 20):
        made, counts = sign._write_runs(tmp_path, "sign-000000", signed, 1, CpuBackend(threads=1))
    assert counts == {"shingles": 64 * rows, "empty": 0} and len(made) == 2


def test_a_range_is_read_without_a_copy(tmp_path: Path) -> None:
    partitions, rows = 20, 10_000
    for partition in range(partitions):
        with SAMPLES.create(tmp_path, partition) as out:
            out.append(SampleRows(np.arange(rows, dtype=np.uint64), np.arange(rows)))
            out.finish()
    zero = np.zeros(1, np.int64)
    layout = Layout(offsets([rows] * partitions), zero, zero, 0, ())
    with at_most(int(1.3 * 16 * partitions * rows)):
        assert len(sorted_range(SAMPLES, tmp_path, layout, 0, 1).place) == partitions * rows


def test_runs_outside_the_rows_are_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition searches the files of all partitions for its rows, a few documents at a time."""
    for step in range(50):
        with FIRSTS.create(tmp_path, step) as out:
            out.append(PlaceRows(np.arange(100 * step, 100 * step + 100)))
            out.finish()
    rows, searches, between = PlacedRows(FIRSTS, tmp_path, range(50), 100, 300), [], documents.slice_between
    monkeypatch.setattr(documents, "slice_between", lambda *given: searches.append(given) or between(*given))
    assert rows.between(150, 250).place.tolist() == list(range(150, 250)) and len(searches) == 2


# --- files of signed documents: several threads change no byte, and write in the background while a device signs ---


BANDS, BATCHES = 5, 7


class Device(ReferenceBackend):
    def __init__(self, threads: int) -> None:
        self._threads = threads

    def sizes(self) -> Any:
        return super().sizes()._replace(readers=self._threads)


def batches(order: str) -> list[SignedBatch]:
    """Rows in a device's order ("C"), or band after band ("F"); some have no token."""
    draw = np.random.default_rng(1)
    found = []
    for _ in range(BATCHES):
        count = int(draw.integers(1, 300))
        digests, exact = (draw.integers(0, 1 << 63, (count, wide), np.int64).astype(np.uint64) for wide in (BANDS, 2))
        found.append(SignedBatch(np.array(digests, order=order), exact, draw.integers(0, 4, count)))  # type: ignore[call-overload]
    return found


def write_runs(folder: Path, given: list[SignedBatch], threads: int) -> list[bytes]:
    folder.mkdir()
    made, counts = sign._write_runs(folder, 0, iter(given), BANDS, Device(threads))
    assert counts["empty"] == sum(int((batch.shingles == 0).sum()) for batch in given) > 0
    assert sorted(made) == sorted(path.name for path in folder.iterdir())
    return [(folder / name).read_bytes() for name in sorted(made)]


@pytest.mark.parametrize(
    ("words", "order"), [(1, "C"), (900 * (BANDS + sign.OTHER_WORDS), "F"), (900 * (BANDS + sign.OTHER_WORDS), "C")]
)
def test_threads_change_no_byte(order: str, words: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign, "RUN_DIGESTS", words)
    given = batches(order)
    wanted = write_runs(tmp_path / "one", given, 1)
    assert write_runs(tmp_path / "two", given, 2) == write_runs(tmp_path / "nine", given, 9) == wanted
    digests = np.concatenate([batch.digests for batch in given])
    filled = np.concatenate([batch.shingles > 0 for batch in given])
    found = np.zeros_like(digests)
    for number, run in enumerate(DIGESTS.open(tmp_path / "two", 0).runs()):
        found[run.row, number % BANDS] = run.digest
    assert (found[filled] == digests[filled]).all() and not found[~filled].any()


def test_the_reading_thread_sorts_nothing_beside_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign, "RUN_DIGESTS", 1)
    ordering, order = set[int](), sign.range_order

    def watched(hashes: Any) -> Any:
        ordering.add(threading.get_ident())
        return order(hashes)

    monkeypatch.setattr(sign, "range_order", watched)
    write_runs(tmp_path / "several", batches("C"), 3)
    assert threading.get_ident() not in ordering
    ordering.clear()
    write_runs(tmp_path / "one", batches("C"), 1)
    assert ordering == {threading.get_ident()}


@pytest.mark.parametrize("threaded", [False, True])
def test_background_writes_keep_order_and_raise_errors(threaded: bool) -> None:
    done: list[tuple[int, bool]] = []
    mine = threading.get_ident()
    with background_writer(threaded) as do:
        for number in range(9):
            do(lambda number=number: done.append((number, threading.get_ident() == mine)))  # type: ignore[misc]
    assert done == [(number, not threaded) for number in range(9)]
    with pytest.raises(ZeroDivisionError), background_writer(threaded) as do:
        do(lambda: 1 // 0)
        do(lambda: pytest.fail("nothing is done after a failure"))


def test_the_caller_waits_at_the_second_background_write() -> None:
    may_end = threading.Event()
    begun: list[int] = []

    def slow() -> None:
        begun.append(1)
        assert may_end.wait(60)

    with pytest.raises(ValueError, match="mine"), background_writer(True) as do:
        do(slow)  # would not return if it were done here
        threading.Timer(0.05, may_end.set).start()
        do(lambda: begun.append(2 if may_end.is_set() else 0))
        raise ValueError("mine")  # which waits for the piece
    assert begun == [1, 2]
