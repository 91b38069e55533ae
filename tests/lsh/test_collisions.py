"""Buckets of several bands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from gpulsh.arrays import Array
from gpulsh.backends.parts import in_part
from gpulsh.backends.select import select_backend
from gpulsh.lsh import collisions
from gpulsh.lsh.collisions import bucketed

OPS = select_backend("reference")


@dataclass
class Columns:
    """`lsh.collisions.Digests` of a table [n, bands]."""

    table: NDArray[np.uint64]
    ascending = True

    @property
    def documents(self) -> int:
        return len(self.table)

    @property
    def bands(self) -> int:
        return self.table.shape[1]

    def band(self, band: int, part: int, parts: int) -> tuple[Array, Array]:
        ids = np.flatnonzero(in_part(self.table[:, band], part, parts))
        return self.table[ids, band], ids


@pytest.mark.parametrize("few", [0, 1 << 16])
def test_bands_are_bucketed_in_order_one_by_one_or_abreast(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    table = random.integers(0, 2**63, (900, 21), np.uint64)
    table[random.random(table.shape) < 0.4] = 5 << 40  # a large bucket in each band
    table[600:] = table[300:600]
    wanted, crowd = bucketed(Columns(table), OPS, lambda done: None)
    assert {int(band) for band in crowd.band} == set(range(21))
    monkeypatch.setattr(collisions, "FEW_DOCUMENTS", few)
    told: list[int] = []
    ops = select_backend("cpu", threads=3)
    small, again = bucketed(Columns(table), ops, told.append)
    np.testing.assert_array_equal(small.ids, wanted.ids)
    np.testing.assert_array_equal(small.offset, wanted.offset)
    for column, same in zip(again, crowd, strict=True):
        np.testing.assert_array_equal(column, same)
    assert told == [1] * 21
