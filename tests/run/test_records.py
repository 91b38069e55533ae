"""What stages hand on: tables, the memory of parts of them, rows in ranges, and the texts of a group."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpulsh.arrays import Signed
from gpulsh.backends.cpu import CpuBackend
from gpulsh.forecast import formula
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts, PartitionFacts, Piece
from gpulsh.io.files.inputs import find_files
from gpulsh.ragged import offsets
from gpulsh.repeats.windows import Repeats
from gpulsh.run.job import Layout, step_of
from gpulsh.run.passages import documents
from gpulsh.run.passages.documents import PlacedRows
from gpulsh.run.passages.tables import FIRSTS, FOUND, SAMPLES, PlaceRows, SampleRows
from gpulsh.run.records import tables
from gpulsh.run.records import texts as group_texts
from gpulsh.run.records.ranges import whole_range
from gpulsh.run.records.tables import PLACES, Table, TextPlaces
from gpulsh.run.records.texts import GroupTexts
from gpulsh.run.stages import sign
from gpulsh.store.columns import kinds_of, range_order
from tests.support.traced import at_most


def width(table: Table[tuple[object, ...]]) -> int:
    """Bytes of a row as arrays hold it."""
    kinds = [kind for kind in kinds_of(table.row).values() if kind is not None]
    return sum(4 if kind is np.signedinteger else np.dtype(kind).itemsize for kind in kinds)


def test_the_planner_counts_the_bytes_of_the_tables() -> None:
    assert (width(tables.DIGESTS), width(tables.EXACT)) == (formula.DIGEST_BYTES, formula.HASH_BYTES)
    assert width(tables.SIZES) == formula.SIZE_BYTES
    assert (width(tables.PAIRS), width(tables.PAIRS) + width(tables.GROUPS)) == (
        formula.PAIR_BYTES,
        formula.ROUTED_PAIR_BYTES,
    )
    assert width(tables.FOREST) == formula.STAR_BYTES
    assert width(tables.MEMBERS) == formula.MEMBER_BYTES == formula.MEMBER_OF_MANY_BYTES - 4
    assert width(tables.DECISIONS) == width(tables.DECIDED) == formula.DECISION_BYTES


@pytest.mark.parametrize("places", [np.int32, np.int64])
def test_what_is_read_is_what_was_written(places: type, tmp_path: Path) -> None:
    written = tables.Members(np.arange(5), np.arange(5, dtype=places), np.array([1, 0, 0, 1, 1], bool))
    (name,) = tables.MEMBERS.write(tmp_path, "connect", written)
    assert name == "connect-members.arrow"
    read = tables.MEMBERS.read(tmp_path, "connect")
    assert read.document.tolist() == [0, 1, 2, 3, 4] and read.group.dtype == places
    assert [read.meets[start:].tolist() for start in (0, 3)] == [[True, False, False, True, True], [True, True]]
    ids = tables.ids_table(3)
    (name,) = ids.write(tmp_path, 7, tables.Ids(np.arange(2), pa.array(["a", None])))
    assert name == "collect-000007-ids3.arrow" and ids.read(tmp_path, 7).id.to_pylist() == ["a", None]


def test_of_short_documents_little_is_known(tmp_path: Path) -> None:
    """Of a file that cannot be read apart it is known of all, until the end."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a b"}\n' * 10_000)
    facts = PartitionFacts()
    texts = FileTexts(find_files([str(tmp_path / "a.jsonl")]), Columns(text="text"))
    assert sum(map(len, texts.read([Piece(0, None)], 1 << 20, facts))) == 10_000
    assert sum(map(len, facts.sizes)) == 10_000 and sum(sizes.nbytes for sizes in facts.sizes) == 10_000


def test_what_is_held_of_signed_rows_does_not_depend_on_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One band has few digests a row, and an exact hash and a number as every other."""
    monkeypatch.setattr(sign, "RUN_DIGESTS", 1 << 18)
    rows, ops = 1 << 13, CpuBackend(threads=1)
    signed = (
        Signed(np.ones((rows, 1), np.uint64), np.ones((rows, 2), np.uint64), np.ones(rows, np.int64)) for _ in range(64)
    )
    with at_most(10 << 20):
        made, counts = sign._write_runs(tmp_path, "sign-000000", signed, 1, ops)
    assert counts == {"shingles": 64 * rows, "empty": 0} and len(made) == 2


def samples(folder: Path, partitions: int, runs: int, rows: int) -> tuple[SampleRows, Layout]:
    """Files of samples in runs, all of their rows by place, and where the places of partitions begin."""
    random, values, size = np.random.default_rng(7), [], runs * rows
    for partition in range(partitions):
        with SAMPLES.create(folder, partition) as out:
            for run in range(runs):
                values.append(random.integers(0, 2**64, rows, np.uint64))
                order = range_order(values[-1])
                out.append(SampleRows(values[-1][order], (run * rows + np.arange(rows))[order]))
            out.finish()
    value, zero = np.concatenate(values), np.zeros(1, np.int64)
    layout = Layout(offsets([size] * partitions), zero, zero, 0, ())
    return SampleRows(value, np.arange(len(value))), layout


@pytest.mark.parametrize("parts", [1, 3, 70_000])
def test_a_range_is_in_order_of_places(tmp_path: Path, parts: int) -> None:
    whole, layout = samples(tmp_path, 4, 3, 500)
    for part in range(0, parts, max(parts // 5, 1)):
        found = whole_range(SAMPLES, tmp_path, layout, part, parts)
        here = [number for number, value in enumerate(whole.value.tolist()) if value * parts >> 64 == part]
        assert found.place.tolist() == here and found.value.tolist() == whole.value[here].tolist()
    some = whole_range(SAMPLES, tmp_path, layout, 0, 1, [1, 3])
    assert some.place.tolist() == [*range(1500, 3000), *range(4500, 6000)]


def test_a_range_is_read_into_its_place(tmp_path: Path) -> None:
    whole, layout = samples(tmp_path, 20, 1, 10_000)
    with at_most(int(1.3 * sum(column.nbytes for column in whole))):
        assert len(whole_range(SAMPLES, tmp_path, layout, 0, 1).place) == len(whole.place)


def test_rows_of_places(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    places = random.permutation(3000)
    runs = [np.sort(run) for run in np.array_split(places, 12)]
    for step in range(4):
        with FOUND.create(tmp_path, step) as out:
            for run in runs[3 * step : 3 * step + 3]:
                out.append(Repeats(run, run - 1, run % 7))
            out.finish()
    rows = PlacedRows(FOUND, tmp_path, range(4), 500, 2000)
    for start, stop in [(500, 2000), (500, 501), (777, 1500), (1999, 2000), (600, 600)]:
        found = rows.between(start, stop)
        order = np.argsort(found.place)
        assert found.place[order].tolist() == list(range(start, stop))
        assert (found.first == found.place - 1).all() and (found.occurrences == found.place % 7).all()
    assert all(len(run.place) < 250 for run in rows.runs(500, 2000))


def test_runs_elsewhere_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition looks for its rows in files of all partitions, a few documents at a time."""
    for step in range(50):
        with FIRSTS.create(tmp_path, step) as out:
            out.append(PlaceRows(np.arange(100 * step, 100 * step + 100)))
            out.finish()
    rows, searches, between = PlacedRows(FIRSTS, tmp_path, range(50), 100, 300), [], documents._between
    monkeypatch.setattr(documents, "_between", lambda *given: searches.append(given) or between(*given))
    assert rows.between(150, 250).place.tolist() == list(range(150, 250)) and len(searches) == 2


GROUP, PARTS, ROWS = 4, 3, 20


def texts(folder: Path) -> tuple[GroupTexts, list[bytes]]:
    """Those of a group in three partitions, others before and behind them in each file."""
    chance, wanted = Random(1), []
    for part in range(PARTS):
        rows = [bytes(chance.randrange(256) for _ in range(chance.choice([0, 0, 1, 7, 300]))) for _ in range(ROWS)]
        wanted += rows
        ends = np.cumsum([9, *map(len, rows)])
        (folder / f"{step_of('gather', part)}-texts.bin").write_bytes(b"x" * 9 + b"".join(rows) + b"behind")
        columns = TextPlaces(
            group=np.array([GROUP - 1, *[GROUP] * ROWS, GROUP + 1]),
            document=np.array([0, *range(part * ROWS, (part + 1) * ROWS), 0]),
            size=np.array([9, *map(len, rows), 6]),
            offset=np.array([0, *ends]),
        )
        PLACES.write(folder, part, columns)
    return GroupTexts(folder, GROUP, [(part, None) for part in range(PARTS)]), wanted


def taken(group: GroupTexts, places: list[int]) -> list[bytes]:
    batch = group.take(np.array(places, np.int64))
    return [batch.values[start:stop].tobytes() for start, stop in pairwise(batch.offset.tolist())]


def test_texts_are_read_in_any_order(tmp_path: Path) -> None:
    group, wanted = texts(tmp_path)
    chance = Random(2)
    orders = [[], [0], list(range(PARTS * ROWS)), list(range(PARTS * ROWS))[::-1], [5, 5, 4, 59, 0]]
    for places in [*orders, *(chance.choices(range(PARTS * ROWS), k=chance.randrange(30)) for _ in range(40))]:
        assert taken(group, places) == [wanted[place] for place in places]
    assert group.sizes.tolist() == [len(text) for text in wanted]


def test_a_file_that_ends_early_is_told(tmp_path: Path) -> None:
    group, _ = texts(tmp_path)
    path = tmp_path / f"{step_of('gather', 1)}-texts.bin"
    os.truncate(path, 30)
    with pytest.raises(EOFError, match=r"gather-000001-texts\.bin: ends early"):
        taken(group, list(range(ROWS, 2 * ROWS)))
