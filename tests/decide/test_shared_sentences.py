"""Pages put together from the same sentences: nearly all pairs meet and hardly any is similar enough. Bounds rule them
out, and no decision depends on which.
"""

from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh import Shingling
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.budget import Cut
from gpulsh.decide import compare as comparing
from gpulsh.decide import large_buckets
from gpulsh.decide.compare import bounds_allow
from gpulsh.decide.large_buckets import Bitmaps
from gpulsh.decide.prefixes import Matches
from gpulsh.lsh.collisions import SmallBuckets
from gpulsh.stats.stages import Progress
from tests.decide.test_decision import assert_decision, described
from tests.run.test_partitioned import assert_rows, cut_as
from tests.support import naive
from tests.support.bounds import set_bounds
from tests.support.files import write_rows
from tests.support.runs import evidence

SHINGLING = Shingling(size=2)
BANDING: dict[str, Any] = {"num_perm": 6, "bands": 6, "rows": 1}
SMALL_BUCKET = 20
WORDS = [f"word{number}" for number in range(400)]


@cache
def pages(count: int, length: int, ordered: bool = True) -> list[str]:
    """Pages of 45 of the same 60 sentences, in their order or any; every fifth is like an earlier one."""
    source = Random(count)
    sentences = [" ".join(source.choices(WORDS, k=length)) for _ in range(60)]
    found: list[list[int]] = []
    for number in range(count):
        page = source.sample(range(60), 45)
        if number % 5 == 4:
            page = found[source.randrange(number)].copy()
            for _ in range(source.randrange(1, 8)):
                page[source.randrange(45)] = source.randrange(60)
        found.append(sorted(page) if ordered else page)
    return [" ".join(sentences[sentence] for sentence in page) for page in found]


@cache
def known(ordered: bool) -> naive.Documents:
    return described(pages(90, 4, ordered), SHINGLING, **BANDING)


@pytest.fixture(params=[4096, 0], ids=["by bitmaps", "by prefixes"])
def most_documents(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred documents of large buckets have bitmaps, or prefixes are made."""
    monkeypatch.setattr(large_buckets, "MOST_DOCUMENTS", request.param)
    monkeypatch.setattr(large_buckets, "FEW_DOCUMENTS", 0)


@pytest.mark.usefixtures("most_documents")
@pytest.mark.parametrize(("bounds", "ordered"), [(None, False), ((10_000, 30), True)])
def test_the_decision_is_the_naive_one(
    monkeypatch: pytest.MonkeyPatch, ordered: bool, bounds: tuple[int, int] | None
) -> None:
    if bounds:
        set_bounds(monkeypatch, *bounds)
        monkeypatch.setattr(Bitmaps, "cost", lambda *given: -(1 << 40))  # they are always asked
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", SMALL_BUCKET)
    asked: list[int] = []
    near = Bitmaps.near

    def counted(bitmaps: Bitmaps, known: Any, asking: Any) -> Any:
        asked.append(len(known))
        return near(bitmaps, known, asking)

    monkeypatch.setattr(Bitmaps, "near", counted)
    for threshold in (0.5, 0.8):
        texts = pages(90, 4, ordered)
        result = gpulsh.deduplicate(texts, threshold=threshold, shingling=SHINGLING, backend="cpu", **BANDING)
        assert_decision(result, naive.greedy(known(ordered), threshold, None, small_bucket=SMALL_BUCKET))
        assert result.funnel.crowded > 50 and 0 < result.funnel.dropped < 90
    assert sum(asked) > 20


@pytest.mark.parametrize("keep", ["first", "longest"])
@pytest.mark.parametrize("group", [20_000, 1 << 40], ids=["in shares", "whole"])
def test_over_files(tmp_path: Path, keep: str, group: int) -> None:
    texts = pages(90, 4)
    write_rows(tmp_path / "in.parquet", [{"text": text, "id": row} for row, text in enumerate(texts)], 40)
    cut = Cut(memory=1 << 30, partition=40_000, digests=400, group=group)
    with cut_as(cut, run=1 << 10), pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", SMALL_BUCKET)
        patch.setattr("gpulsh.run.stages.collide.PAIRS_AT_ONCE", 100)
        options: dict[str, Any] = {"shingling": SHINGLING, "backend": "cpu", **BANDING}
        out = tmp_path / "out"
        gpulsh.deduplicate_files(tmp_path / "in.parquet", out, keep=keep, id_column="id", **options)
    priority = None if keep == "first" else [float(len(text)) for text in texts]
    wanted = naive.greedy(known(True), 0.8, priority, small_bucket=SMALL_BUCKET)
    assert_rows(evidence(out), (wanted.duplicate_of, wanted.similarity, wanted.cluster))


@pytest.mark.usefixtures("most_documents")
def test_few_pairs_are_compared_by_fingerprints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all pairs that share a bucket, small or large, bitmaps leave a tenth; the first few are compared at once."""
    texts = pages(400, 25)
    measured: list[int] = []

    exact = comparing.exact

    def counted(rows: Any, parts: Any, ops: Any) -> Any:
        measured.append(len(rows))
        return exact(rows, parts, ops)

    monkeypatch.setattr(comparing, "exact", counted)
    result = gpulsh.deduplicate(texts, backend="cpu", num_perm=42, bands=42, rows=1)
    assert result.funnel.crowded == 400 and result.funnel.dropped > 5
    assert 0 < sum(measured) < 400 * 399 // 2 // 8


def test_matches_beyond_all_pairs_are_never_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every prefix meets every other, what is listed are pairs, not the shingles that they share."""
    listed: list[int] = []
    pairs = Matches.pairs

    def counted(matches: Matches, most: int) -> Any:
        listed.append(matches.count)
        return pairs(matches, most)

    monkeypatch.setattr(Matches, "pairs", counted)
    monkeypatch.setattr(large_buckets, "MOST_DOCUMENTS", 0)
    result = gpulsh.deduplicate(pages(400, 25), backend="cpu", num_perm=42, bands=42, rows=1)
    assert result.funnel.crowded == 400 and sum(listed) < 400 * 399 // 2


@pytest.mark.parametrize("words", [16, 256])
def test_no_bitmap_rules_out_a_similar_pair(words: int) -> None:
    """At the very threshold too, and of rows far longer than a bitmap."""
    source = np.random.default_rng(words)
    rows, wanted = [], []
    for size in (1, 5, 90, 4000):
        common = source.integers(0, 1 << 64, size * 4, dtype=np.uint64)
        for own in (0, size // 2, size, 2 * size):
            for side in (0, 1):
                rows.append(np.unique(np.append(common, source.integers(0, 1 << 64, own * side, dtype=np.uint64))))
            both, either = len(np.intersect1d(*rows[-2:])), len(np.union1d(*rows[-2:]))
            wanted.append(both / either)
    offset = np.cumsum([0, *map(len, rows)])
    fingerprints = gpulsh.Fingerprints(np.concatenate(rows), offset.astype(np.int64))
    pairs = np.arange(len(rows)).reshape(-1, 2)
    for ops in (CpuBackend(2), ReferenceBackend()):
        bitmaps = ops.bitmaps(fingerprints, words)
        for number, similarity in enumerate(wanted):
            one = pairs[number : number + 1]
            assert bounds_allow(one, bitmaps, np.diff(offset), similarity, ops).all()
            assert not bounds_allow(one, bitmaps, np.diff(offset), np.nextafter(1.0, 2), ops).any()


def test_pairs_of_small_buckets_come_in_pieces() -> None:
    """Each pair once, in order, and no piece much larger than asked for, also where a document is a large number."""
    source = Random(1)
    for ops, stretch in ((CpuBackend(2), 1), (CpuBackend(1), 1 << 33), (ReferenceBackend(), 1)):
        buckets = [sorted(source.sample(range(60), source.randrange(2, 12))) for _ in range(40)]
        ids = np.array([stretch * member for bucket in buckets for member in bucket])
        sizes = np.array(list(map(len, buckets)))
        small = SmallBuckets.joined([ids], [sizes], 60 * stretch, ops)
        wanted = sorted({pair for bucket in buckets for pair in combinations(bucket, 2)})
        for most in (1, 50, 1 << 20):
            pieces = list(small.pieces(most))
            assert np.concatenate(pieces).tolist() == [[stretch * i, stretch * j] for i, j in wanted]
            assert (len(pieces) == 1) == (most == 1 << 20) and max(map(len, pieces)) <= most + 60
    assert [piece.tolist() for piece in SmallBuckets.joined([], [], 5, CpuBackend(1)).pieces(1)] == [[]]


class Reported(Progress):
    """What each stage reported: its total, then its steps."""

    def __init__(self) -> None:
        self.of: dict[str, list[int]] = {}

    def stage(self, name: str, total: int | None, unit: str) -> Any:
        self.of[name] = [total or 0]
        return super().stage(name, total, unit)

    def advance(self, amount: int) -> None:
        self.of[list(self.of)[-1]].append(amount)

    def is_small_steps(self, stage: str) -> bool:
        total, *steps = self.of[stage]
        return sum(steps) == total > 0 and sum(step > 0 for step in steps) > 4 and max(steps) < total / 2


def test_progress_is_reported_while_pairs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pairs of small buckets and of the documents of large ones, in small steps that add up to the whole."""
    reported = Reported()
    monkeypatch.setattr("gpulsh.run.memory.open_progress", lambda show: reported)
    monkeypatch.setattr(comparing, "PAIRS_AT_ONCE", 1000)
    monkeypatch.setattr(large_buckets, "LAST_BLOCK", 64)
    gpulsh.deduplicate(pages(400, 12), backend="cpu", num_perm=6, bands=6, rows=1, progress=True)
    assert reported.is_small_steps("verify") and reported.is_small_steps("resolve")


def test_progress_is_reported_within_a_group_of_a_run_over_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path / "in.parquet", pages(300, 12))
    reported = Reported()
    monkeypatch.setattr("gpulsh.run.file_run.open_progress", lambda show: reported)
    monkeypatch.setattr(comparing, "PAIRS_AT_ONCE", 1000)
    gpulsh.deduplicate_files(tmp_path / "in.parquet", tmp_path / "out", backend="cpu", progress=True)
    assert reported.is_small_steps("verify")
