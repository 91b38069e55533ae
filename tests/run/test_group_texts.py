"""The texts of a group, read from the files of all partitions, in any order."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from gpulsh.run.job import step_of
from gpulsh.run.records import texts as group_texts
from gpulsh.run.records.tables import PLACES, TextPlaces
from gpulsh.run.records.texts import GroupTexts

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
