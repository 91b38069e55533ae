"""Filters rule nothing out that is there, most that is not, and spare looking at a segment's digests."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpulsh import Fingerprints
from gpulsh.index import holdings as holdings_module
from gpulsh.index.holdings import Holdings
from gpulsh.index.segments.filters import Sought, make_filter
from gpulsh.index.segments.segment import Documents, make_segment, map_segment, write_segment
from gpulsh.index.storage import NOTHING

hashes = st.lists(st.integers(0, 2**64 - 1), max_size=300)


@given(hashes, hashes)
@example([0, 2**64 - 1], [0, 1 << 63, 2**64 - 1])
@example([], [0, 2**64 - 1])
def test_all_that_are_there_pass(held: list[int], asked: list[int]) -> None:
    words = make_filter(np.array(sorted(held), np.uint64))
    assert len(held) * 20 <= len(words) * 64 < len(held) * 23 + 64
    sought = Sought(np.array(sorted([*asked, *held[::2]]), np.uint64))
    places = sought.places_in(words)
    assert places.tolist() == sorted(set(places.tolist()))
    assert set(sought.values[places].tolist()) >= set(held) & set(sought.values.tolist())
    if not held:
        assert len(places) == 0


def test_few_others_pass() -> None:
    chance = np.random.default_rng(3)
    held, asked = (np.sort(chance.integers(0, 2**64, 100_000, np.uint64)) for _ in range(2))
    assert 20 < len(Sought(asked).places_in(make_filter(held))) < 500


def looked_at(kind: str) -> int:
    """Bytes of mapped files of a kind that this process has touched."""
    touched = inside = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if "-" in name:
            inside = Path(rest.split(" ")[-1]).name.startswith(f"{kind}-")
        elif inside and name == "Rss:":
            touched += int(rest.split()[0]) << 10
    return touched


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="the system does not tell which pages were touched")
def test_digests_that_are_not_there_touch_no_page_of_digests(tmp_path: Path) -> None:
    count, bands = 20_000, 8
    chance = np.random.default_rng(4)

    def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        return chance.integers(1, 2**64, shape, np.uint64)

    numbers = np.arange(count)
    documents = Documents(numbers, numbers, np.ones(count), np.ones(count, np.int64))
    sets = Fingerprints(drawn(count), np.arange(count + 1))
    exact, digests = drawn(count, 2), drawn(count, bands)

    def name(kind: str) -> Path:
        return tmp_path / f"{kind}-0.arrow"

    write_segment(name, make_segment(documents, exact, digests, sets))
    holdings = Holdings([map_segment(name, keys=False)], NOTHING)
    before = {kind: looked_at(kind) for kind in ("digests", "hashes")}
    for band in range(bands):
        places, _ = holdings.holders(np.full(30, band), np.sort(drawn(30)))
        assert len(places) == 0
    assert (holdings.first_copies(drawn(30, 2))[0] == -1).all()
    # A page that is touched brings its neighbours along, 16 of them, and a few hashes pass.
    size = name("digests").stat().st_size
    assert size > 40 << 16 and looked_at("digests") - before["digests"] <= 12 << 16
    assert looked_at("hashes") - before["hashes"] <= 3 << 16

    def ask_all() -> None:
        for band in range(bands):
            order = np.argsort(digests[:, band])
            places, found = holdings.holders(np.full(count, band), digests[order, band])
            assert places.tolist() == list(range(count)) and found.tolist() == order.tolist()

    with mock.patch.object(holdings_module, "MANY", 1 << 30):
        ask_all()
    assert (holdings.first_copies(exact)[0] == numbers).all()
    assert looked_at("digests") - before["digests"] > size // 2
    ask_all()  # what so many look at is not held for the next ones
    assert looked_at("digests") < before["digests"]
