"""Rows read from the files of all partitions: in a range of hashes, and in a range of places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpulsh.ragged import offsets
from gpulsh.repeats.windows import Repeats
from gpulsh.run.job import Layout
from gpulsh.run.passages import documents
from gpulsh.run.passages.documents import PlacedRows
from gpulsh.run.passages.tables import FIRSTS, FOUND, SAMPLES, PlaceRows, SampleRows
from gpulsh.run.records.ranges import whole_range
from gpulsh.store.columns import range_order
from tests.support.traced import at_most


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
