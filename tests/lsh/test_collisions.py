"""What is told of buckets beside their pairs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from gpulsh.arrays import Array
from gpulsh.backends.parts import in_part
from gpulsh.backends.select import select_backend
from gpulsh.lsh import collisions
from gpulsh.lsh.collisions import BUCKET_CLASSES, SmallBuckets, bucketed

OPS = select_backend("reference")


def buckets(members: list[list[int]], documents: int) -> SmallBuckets:
    return SmallBuckets.joined(
        [np.array(some, np.int64) for some in members], [np.array([len(some)]) for some in members], documents, OPS
    )


def test_the_smallest_bucket_of_each_pair_counts() -> None:
    random = np.random.default_rng(1)
    members = [random.choice(60, size, replace=False).tolist() for size in (2, 2, 3, 5, 9, 17, 40)]
    smallest: dict[tuple[int, int], int] = {}
    for some in members:
        for pair in combinations(sorted(some), 2):
            smallest[pair] = min(smallest.get(pair, 256), len(some))
    wanted = dict.fromkeys(BUCKET_CLASSES, 0)
    for size in smallest.values():
        wanted[next(most for most in BUCKET_CLASSES if size <= most)] += 2  # from either document
    assert buckets(members, 60).smallest() == wanted and wanted[64] > wanted[2] > 0
    assert not any(buckets([], 60).smallest().values())


def test_of_many_pairs_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    members = [random.choice(50_000, size, replace=False).tolist() for size in [4] * 2000 + [30] * 400]
    monkeypatch.setattr(collisions, "DRAWN_PAIRS", 1 << 30)
    every = buckets(members, 50_000).smallest()
    monkeypatch.setattr(collisions, "DRAWN_PAIRS", 1 << 15)
    some = buckets(members, 50_000).smallest()
    assert sum(some.values()) == pytest.approx(1 << 15, rel=0.1) and sum(every.values()) > 300_000
    assert some[4] / sum(some.values()) == pytest.approx(every[4] / sum(every.values()), rel=0.15)


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
