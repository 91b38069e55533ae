"""Filters rule out no present digest and most absent ones, and save reading a segment's digests."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpulsh import Fingerprints, Index
from gpulsh.index import groups as groups_module
from gpulsh.index import merging
from gpulsh.index import snapshot as snapshot_module
from gpulsh.index.filters import bloom_filter, find_members
from gpulsh.index.folder import commit_manifest, read_manifest
from gpulsh.index.merging import merge_to_files
from gpulsh.index.segment import NO_NUMBERS, Documents, make_segment
from gpulsh.index.snapshot import Snapshot
from tests.support.traced import bytes_touched

hashes = st.lists(st.integers(0, 2**64 - 1), max_size=300)


@given(hashes, hashes)
@example([0, 2**64 - 1], [0, 1 << 63, 2**64 - 1])
@example([], [0, 2**64 - 1])
def test_a_filter_passes_every_value_it_holds(held: list[int], asked: list[int]) -> None:
    words = bloom_filter([np.array(sorted(held), np.uint64)])
    assert len(held) * 20 <= len(words) * 64 < len(held) * 23 + 64
    values = np.array(sorted([*asked, *held[::2]]), np.uint64)
    places = find_members(words, values)
    assert places.tolist() == sorted(set(places.tolist()))
    assert set(values[places].tolist()) >= set(held) & set(values.tolist())
    if not held:
        assert len(places) == 0


def test_false_positives_of_a_group_fail_its_segments_filters() -> None:
    chance = np.random.default_rng(6)
    parts = [np.sort(chance.integers(0, 2**64, 50_000, np.uint64)) for _ in range(4)]
    asked = np.sort(chance.integers(0, 2**64, 400_000, np.uint64))
    assert 20 < len(find_members(bloom_filter(parts[:1]), asked)) < 2000
    passed = asked[find_members(bloom_filter(parts, together=True), asked, together=True)]
    assert 5 < len(passed) < 60
    assert sum(len(find_members(bloom_filter([part]), passed)) for part in parts) < 5


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="the system does not tell which pages were touched")
def test_absent_digests_touch_no_page_of_a_segment(tmp_path: Path) -> None:
    count, bands = 20_000, 8
    chance = np.random.default_rng(4)

    def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        return chance.integers(1, 2**64, shape, np.uint64)

    numbers = np.arange(count)
    documents = Documents(numbers, numbers, np.ones(count), np.ones(count, np.int64))
    sets = Fingerprints(drawn(count), np.arange(count + 1))
    exact, digests = drawn(count, 2), drawn(count, bands)

    segment = merge_to_files([make_segment(documents, exact, digests, sets)], NO_NUMBERS, tmp_path)
    snapshot = Snapshot([segment], NO_NUMBERS)
    before = {kind: bytes_touched(kind) for kind in ("digests", "hashes")}
    for band in range(bands):
        places, _ = snapshot.documents_with(np.full(30, band), np.sort(drawn(30)))
        assert len(places) == 0
    assert (snapshot.first_copies(drawn(30, 2))[0] == -1).all()
    # A page that is touched brings its neighbours along, 16 of them, and a few hashes pass.
    (size,) = (file.stat().st_size for file in tmp_path.glob("digests-*"))
    assert size > 40 << 16 and bytes_touched("digests") - before["digests"] <= 12 << 16
    assert bytes_touched("hashes") - before["hashes"] <= 3 << 16

    def ask_all() -> None:
        for band in range(bands):
            order = np.argsort(digests[:, band])
            places, found = snapshot.documents_with(np.full(count, band), digests[order, band])
            assert places.tolist() == list(range(count)) and found.tolist() == order.tolist()

    with mock.patch.object(snapshot_module, "MANY", 1 << 30):
        ask_all()
    assert (snapshot.first_copies(exact)[0] == numbers).all()
    assert bytes_touched("digests") - before["digests"] > size // 2
    ask_all()  # pages that many queries read are not kept for the next ones
    assert bytes_touched("digests") < before["digests"]


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_grouped_segments_give_the_same_answers(measure: str, tmp_path: Path) -> None:
    """The groups have 2, 3, 5 and 8 segments of ten documents each."""
    texts = repeating_texts(120)
    options: dict[str, Any] = {"threshold": 0.3, "shingling": "word:2", "measure": measure, "backend": "cpu"}
    found, made = [], set()
    for fold in (0, 2):  # without groups, and with them
        with mock.patch.object(groups_module, "RATIO", fold), Index.create(tmp_path / str(fold), **options) as index:
            index.collection.spill = 1  # so that the added documents are a segment of files
            for number in range(0, 90, 10):
                index.add(range(number, number + 10), texts[number : number + 10])
                assert number in index and number + 10 not in index
                made |= {(fold, len(group.segments)) for group in index.collection.contents.groups}
            held, count = np.unique(index.collection.contents.band(0)[0], return_counts=True)
            asked = np.union1d(held, held + np.uint64(1))
            wanted = np.where(np.isin(asked, held), count[np.searchsorted(held, asked) % len(held)], 0)
            assert index.collection.contents.frequencies(asked).tolist() == wanted.tolist()
            index.remove([5])
            found.append(answers(index, texts))
            index.compact()
            assert not index.collection.contents.groups
    assert found[0] == found[1] and 0 < found[0][-1] < 80
    assert made == {(2, width) for width in (2, 3, 5, 8)}


def repeating_texts(count: int) -> list[str]:
    chance = np.random.default_rng(8)
    texts = [" ".join(f"w{word}" for word in chance.integers(0, 30, 12)) for _ in range(count)]
    return [text if number % 3 else texts[number // 2] for number, text in enumerate(texts)]


def answers(index: Index, texts: list[str]) -> list[Any]:
    found = index.query(texts)
    rows = [*found.positions.tolist(), *found.keys.tolist(), *found.similarity.tolist()]
    return [*rows, len(index), index.dropped()]


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content)


def test_group_filters_are_reused_and_rebuilt_if_damaged(tmp_path: Path) -> None:
    texts, begun = repeating_texts(40), tmp_path / "begun"
    options: dict[str, Any] = {"threshold": 0.3, "shingling": "word:2", "backend": "cpu"}

    def add(index: Index, number: int) -> None:
        index.add(range(number, number + 10), texts[number : number + 10])

    whole = Index(**options)
    with Index.create(begun, **options) as index:
        for number in range(0, 30, 10):
            add(whole, number)
            add(index, number)
            index.save()
    before = answers(whole, texts)
    add(whole, 30)
    groups = read_manifest(begun).groups
    assert [(name.split("-")[0], name[-8:]) for name in groups] == [("groups", "-3.arrow")]
    assert {name for name in os.listdir(begun) if "groups" in name} == set(groups)  # none of two segments is left
    wrongs: list[Callable[[Path], object]] = [Path.exists, Path.unlink, flip, lambda file: os.truncate(file, 100)]
    wrongs.append(lambda file: commit_manifest(file.parent, replace(read_manifest(file.parent), groups={}), "0.1"))
    for place, wrong in enumerate(wrongs):
        path = shutil.copytree(begun, tmp_path / str(place))
        for name in groups:
            wrong(path / name)
        with Index.open(path, backend="cpu") as index:
            assert {group.name for group in index.collection.contents.groups} == (set() if place else set(groups))
            assert answers(index, texts) == before
            add(index, 30)
            index.save()
        with Index.open(path, backend="cpu") as index:
            kept = {group.name: group.fact for group in index.collection.contents.groups}
            assert kept == read_manifest(path).groups and len(kept) == 1
            assert answers(index, texts) == answers(whole, texts)


def test_filters_are_saved_in_the_folder_of_their_index(tmp_path: Path) -> None:
    """An index moves from memory to one folder and another: each small save writes filters beside it."""
    index = Index(num_perm=16, bands=8, rows=2, backend="cpu")
    for number, path in enumerate(("here", "there")):
        index.save(tmp_path / path)
        index.insert([], [])
        index.save()
        before = sorted(tmp_path.rglob("*"))
        for key in range(3):
            index.insert([3 * number + key], [f"page{number} {key} of a few more words"])
            index.save()
        assert {file.parent.name for file in {*tmp_path.rglob("*")} - {*before}} == {path}
    with Index.create(tmp_path / "made", num_perm=16, bands=8, rows=2, backend="cpu") as made:
        made.save()
        made.insert([], [])
        made.save()


def test_the_work_of_a_commit_hardly_grows_with_the_segments(tmp_path: Path) -> None:
    """Filters of groups rule out nearly all segments, and a manifest of many files is written at once."""
    index = Index.create(tmp_path / "index", backend="cpu", threads=1)

    def calls_of(start: int, stop: int) -> int:
        calls = 0

        def count(frame: Any, event: str, what: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            for number in range(start, stop):
                index.add([number], [" ".join(f"w{number}x{place}" for place in range(20))])
                index.save()
        finally:
            sys.setprofile(None)
        return calls

    calls_of(0, 8)
    few = calls_of(8, 16)
    calls_of(16, 64)
    assert calls_of(64, 72) < 2 * few  # it was three times


@pytest.mark.parametrize("evidence", ["index", "source"])
def test_many_small_commits_end_in_few_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evidence: Any) -> None:
    """Otherwise an index of 11,000 commits has more files than a process can map, and cannot be opened."""
    monkeypatch.setattr(merging, "MAX_SMALL", 4)
    texts = [" ".join(f"w{number % 7}x{place}" for place in range(20)) for number in range(30)]
    given = {"evidence": evidence, "read": lambda keys: [texts[key] for key in keys]} if evidence == "source" else {}
    index, wanted = Index.create(tmp_path / "index", backend="cpu", **given), Index(backend="cpu", **given)
    for number in range(30):
        for each in (index, wanted):
            each.add([number], texts[number : number + 1])
            if number == 20:
                each.remove([3, 18])
        index.save()
        assert len(index.collection.contents.segments) <= 5
    index.close()
    again = Index.open(tmp_path / "index", backend="cpu", read=given.get("read"))
    assert [*again.query(texts)] == [*wanted.query(texts)] and [*again.counts()] == [*wanted.counts()]
    assert [key for key in range(30) if key in again] == [key for key in range(30) if key in wanted]
    monkeypatch.setattr(merging, "SMALL_FILES", 1)
    for number in range(30, 40):
        again.add([number], [f"large {number}"])
        again.save()
    assert len(again.collection.contents.segments) > 10
