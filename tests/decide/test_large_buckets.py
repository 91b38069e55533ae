"""Pages put together from the same sentences: nearly all pairs meet and hardly any is similar enough. Bounds rule them
out, and no decision depends on which.
"""

from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import Shingling
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.budget import TaskSizes
from gpulsh.decide import compare as comparing
from gpulsh.decide import large_buckets, prefixes
from gpulsh.decide.compare import bounds_allow
from gpulsh.decide.edges import NO_RULES, DropRules, Edges
from gpulsh.decide.fingerprint_source import ShingledTexts
from gpulsh.decide.large_buckets import Bitmaps, LargeBucketJoin
from gpulsh.decide.meeting import DROPPED, KEPT, Verified, resolve_blocks, witnesses
from gpulsh.decide.prefixes import Matches, Prefixes
from gpulsh.errors import DeviceMemoryError
from gpulsh.io.memory.texts import open_texts
from gpulsh.lsh.collisions import Collisions, Memberships, SmallBuckets
from gpulsh.method import Method
from gpulsh.stats.stages import Progress
from tests.decide.test_decision import assert_decision, naive_documents
from tests.run.test_partitioned import assert_rows, cut_as
from tests.support import naive
from tests.support.bounds import set_bounds
from tests.support.files import write_rows
from tests.support.runs import evidence
from tests.support.texts import pages

SHINGLING = Shingling(size=2)
BANDING: dict[str, Any] = {"num_perm": 6, "bands": 6, "rows": 1}
SMALL_BUCKET = 20


@cache
def naive_pages(ordered: bool) -> naive.Documents:
    return naive_documents(pages(90, 4, ordered), SHINGLING, **BANDING)


def record_calls(patch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """Record the arguments of each later call of `owner.name`."""
    noted, called = list[Any](), getattr(owner, name)
    patch.setattr(owner, name, lambda *given: noted.append(given) or called(*given))
    return noted


@pytest.mark.parametrize("most", [4096, 0], ids=["by bitmaps", "by prefixes"])
@pytest.mark.parametrize(("bounds", "ordered"), [(None, False), ((10_000, 30), True)])
def test_decisions_in_large_buckets_equal_the_naive_greedy(
    monkeypatch: pytest.MonkeyPatch, ordered: bool, bounds: tuple[int, int] | None, most: int
) -> None:
    monkeypatch.setattr(large_buckets, "MAX_DOCUMENTS", most)
    monkeypatch.setattr(large_buckets, "FEW_DOCUMENTS", 0)
    if bounds:
        set_bounds(monkeypatch, *bounds)
        monkeypatch.setattr(Bitmaps, "cost", lambda *given: -(1 << 40))  # they are always worth their time
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", SMALL_BUCKET)
    asked = record_calls(monkeypatch, Bitmaps, "near_pairs")
    for threshold in (0.5, 0.8):
        texts = pages(90, 4, ordered)
        result = gpulsh.deduplicate(texts, threshold=threshold, shingling=SHINGLING, backend="cpu", **BANDING)
        assert_decision(result, naive.greedy(naive_pages(ordered), threshold, None, small_bucket=SMALL_BUCKET))
        assert result.funnel.crowded > 50 and 0 < result.funnel.dropped < 90
    assert sum(len(known) for _, known, _ in asked) > 20


@pytest.mark.parametrize("keep", ["first", "longest"])
@pytest.mark.parametrize("group", [20_000, 1 << 40], ids=["in shares", "whole"])
def test_decisions_over_files_equal_the_naive_greedy(tmp_path: Path, keep: str, group: int) -> None:
    texts = pages(90, 4)
    write_rows(tmp_path / "in.parquet", [{"text": text, "id": row} for row, text in enumerate(texts)], 40)
    cut = TaskSizes(memory=1 << 30, partition=40_000, digests=400, group=group)
    with cut_as(cut, run=1 << 10), pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", SMALL_BUCKET)
        patch.setattr("gpulsh.run.stages.collide.PAIRS_AT_ONCE", 100)
        options: dict[str, Any] = {"shingling": SHINGLING, "backend": "cpu", **BANDING}
        out = tmp_path / "out"
        gpulsh.deduplicate_files(tmp_path / "in.parquet", out, keep=keep, id_column="id", **options)
    priority = None if keep == "first" else [float(len(text)) for text in texts]
    wanted = naive.greedy(naive_pages(True), 0.8, priority, small_bucket=SMALL_BUCKET)
    assert_rows(evidence(out), (wanted.duplicate_of, wanted.similarity, wanted.cluster))


@pytest.mark.parametrize("most", [4096, 0], ids=["by bitmaps", "by prefixes"])
def test_few_pairs_are_compared_by_fingerprints(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most an eighth of all pairs; matches of prefixes are listed as pairs, not as shared shingles."""
    monkeypatch.setattr(large_buckets, "MAX_DOCUMENTS", most)
    measured, listed = (
        record_calls(monkeypatch, comparing, "exact_jaccard"),
        record_calls(monkeypatch, Matches, "pairs"),
    )
    result = gpulsh.deduplicate(pages(400, 25), backend="cpu", num_perm=42, bands=42, rows=1)
    assert result.funnel.crowded == 400 and result.funnel.dropped > 5
    assert 0 < sum(len(rows) for rows, *_ in measured) < 400 * 399 // 2 // 8
    assert sum(matches.count for matches, _ in listed) < 400 * 399 // 2


@pytest.mark.parametrize("words", [16, 256])
def test_no_bitmap_rules_out_a_similar_pair(words: int) -> None:
    """This holds at the threshold itself, and for rows far longer than a bitmap."""
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


def test_pairs_of_small_buckets_come_in_bounded_pieces() -> None:
    """Each pair comes once, in order, in pieces near the requested size, also with large document numbers."""
    source = Random(1)
    for ops, stretch in ((CpuBackend(2), 1), (CpuBackend(1), 1 << 33), (ReferenceBackend(), 1)):
        buckets = [sorted(source.sample(range(60), source.randrange(2, 12))) for _ in range(40)]
        ids = np.array([stretch * member for bucket in buckets for member in bucket])
        sizes = np.array(list(map(len, buckets)))
        small = SmallBuckets.concat([ids], [sizes], 60 * stretch, ops)
        wanted = sorted({pair for bucket in buckets for pair in combinations(bucket, 2)})
        for most in (1, 50, 1 << 20):
            pieces = list(small.pieces(most))
            assert np.concatenate(pieces).tolist() == [[stretch * i, stretch * j] for i, j in wanted]
            assert (len(pieces) == 1) == (most == 1 << 20) and max(map(len, pieces)) <= most + 60
    assert [piece.tolist() for piece in SmallBuckets.concat([], [], 5, CpuBackend(1)).pieces(1)] == [[]]


class StageRecorder(Progress):
    """Record each stage's total, then its steps."""

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


@pytest.mark.parametrize("files", [False, True], ids=["in memory", "within a group of a run over files"])
def test_progress_advances_in_small_steps(files: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of small buckets and documents of large ones advance in small steps that add up to the whole."""
    reported = StageRecorder()
    monkeypatch.setattr(f"gpulsh.run.{'file_run' if files else 'memory'}.open_progress", lambda show: reported)
    monkeypatch.setattr(comparing, "PAIRS_AT_ONCE", 1000)
    monkeypatch.setattr(large_buckets, "LAST_BLOCK", 64)
    if files:
        write_rows(tmp_path / "in.parquet", pages(300, 12))
        gpulsh.deduplicate_files(tmp_path / "in.parquet", tmp_path / "out", backend="cpu", progress=True)
    else:
        gpulsh.deduplicate(pages(400, 12), backend="cpu", num_perm=6, bands=6, rows=1, progress=True)
        assert reported.is_small_steps("resolve") and reported.is_small_steps("verify")
        reported.of.clear()
        gpulsh.deduplicate(near_copies(120, 1), backend="cpu", measure="containment", progress=True)
    assert reported.is_small_steps("verify")


# --- the join of large buckets, by every way to its pairs

Outcome = tuple[list[bool], list[tuple[int, int, float]]]
NONE = np.empty(0, np.int64)
OWN = [f"own{number}" for number in range(50_000)]


def source_of(texts: list[str], ops: Backend) -> ShingledTexts:
    ids = np.arange(len(texts))
    return ShingledTexts(ids, ops, open_texts(pa.array(texts), ops).choose(ids), Method.choose(), None)


def joined(texts: list[str], ops: Backend, rules: DropRules = NO_RULES) -> Outcome:
    """The kept documents, and the edges, where all documents are in one large bucket."""
    ids = np.arange(len(texts))
    met = Collisions.from_buckets(
        np.empty((0, 2), np.int64), [Memberships(ids, np.zeros_like(ids), np.zeros_like(ids))], 1
    )
    join = LargeBucketJoin(ids, met, source_of(texts, ops), Method.choose(), ops, rules)
    status = np.zeros(len(texts), np.int8)
    edges = Edges.concat([*resolve_blocks(status, Edges(NONE, NONE, np.empty(0)), join, ids, ops)])
    found = zip(edges.earlier.tolist(), edges.later.tolist(), edges.similarity.tolist(), strict=True)
    return (status == KEPT).tolist(), sorted(found)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@given(
    pairs=st.dictionaries(st.tuples(st.integers(0, 11), st.integers(0, 11)), st.sampled_from([0.5, 0.8, 1.0])),
    is_kept=st.lists(st.booleans(), min_size=12, max_size=12),
    protected=st.integers(0, 4),
    cuts=st.sets(st.integers(0, 11)),
)
def test_few_pairs_give_the_witnesses_and_components_of_all(
    backend: str, pairs: dict[tuple[int, int], float], is_kept: list[bool], protected: int, cuts: set[int]
) -> None:
    """Near-copies on both sides of a rule make a pair for each two of them."""
    ops, status = BACKENDS[backend], np.where(is_kept, KEPT, DROPPED).astype(np.int8)
    rows = sorted((j, i, similarity) for (i, j), similarity in pairs.items() if i < j)
    few = Verified(np.arange(12) < protected, False, ops)
    for start, stop in pairwise([0, *sorted(cuts), 12]):
        own = [row for row in rows if start <= row[0] < stop]
        later, earlier, similarity = (np.array([row[column] for row in own]) for column in range(3))
        few.add(Edges(earlier.astype(np.int64), later.astype(np.int64), similarity.astype(np.float64)), status)
    found = few.resolved(status)
    best: dict[int, tuple[float, int]] = {}
    for j, i, measured in rows:
        if is_kept[i] and not is_kept[j]:
            best[j] = min(best.get(j, (-measured, i)), (-measured, i))
    got = witnesses(found.kept, found.edges)
    assert list(zip(got.later, got.similarity, got.earlier, strict=True)) == [
        (j, -s, i) for j, (s, i) in sorted(best.items())
    ]
    known = naive.components(12, [(i, j) for j, i, _ in rows])
    assert naive.components(12, [tuple(pair) for pair in found.connecting.tolist()]) == known
    assert {j for j, i in zip(found.edges.later, found.edges.earlier, strict=True) if i < protected} == {
        j for j, i, _ in rows if i < protected
    }
    assert found.pairs == len(rows) and len(found.edges.later) <= 2 * len({j for j, _, _ in rows})


@cache
def naive_of(kind: str, rules: DropRules) -> Outcome:
    return by_sets(KINDS[kind], rules)


def by_sets(texts: list[str], rules: DropRules = NO_RULES) -> Outcome:
    """The same by comparing each document with all kept ones before it; a query drops no later document."""
    sets = [set(zip(*(text.split()[at:] for at in range(5)), strict=False)) for text in texts]
    witnesses: list[int] = []
    kept, found = [True] * len(texts), []
    for later, own in enumerate(sets):
        if later >= rules.protected:
            alike = [(earlier, later, len(sets[earlier] & own) / len(sets[earlier] | own)) for earlier in witnesses]
            alike = [edge for edge in alike if edge[2] >= 0.8]
            found += alike
            kept[later] = not alike
        if kept[later] and (rules.first_query is None or later < rules.first_query):
            witnesses.append(later)
    return kept, sorted(found)


@cache
def template(own: int) -> list[str]:
    source = Random(own)
    frame = [f"frame{number}" for number in range(60)]
    found: list[list[str]] = []
    for number in range(120):
        page = source.choices(OWN, k=own)
        if number % 4 == 3:
            page = found[source.randrange(number)].copy()
            page[source.randrange(own)] = source.choice(OWN)
        found.append(page)
    return [" ".join(frame[:30] + page + frame[30:]) for page in found]


def near_copies(count: int, seed: int) -> list[str]:
    source = Random(seed)
    page = source.choices(OWN, k=200)
    copies = []
    for _ in range(count):
        copy = page.copy()
        copy[source.randrange(200)] = source.choice(OWN)
        copies.append(" ".join(copy))
    return copies


KINDS = {"own": template(60), "copies": near_copies(100, 1) + template(30), "pages": pages(80, 6), "one": ["a b c d e"]}
BACKENDS = {"cpu": CpuBackend(2), "one thread": CpuBackend(1), "scarce": CpuBackend(2, memory=1 << 18)}
BACKENDS["reference"] = ReferenceBackend()
BOUNDS = {"FEW_KEPT": [0, 8, 64], "FEW_DOCUMENTS": [0, 64], "FIRST_BLOCK": [1, 64, 1 << 20]}
BOUNDS |= {"LARGEST_JOIN": [500, 1 << 22], "MAX_DOCUMENTS": [0, 4096], "MATCH_COST": [0, 4, 1 << 20]}
all_rules = st.sampled_from(
    [NO_RULES, DropRules(protected=40), DropRules(protected=40, first_query=40), DropRules(first_query=60)]
)


@settings(max_examples=10)
@given(
    kind=st.sampled_from(list(KINDS)),
    backend=st.sampled_from(["cpu", "one thread", "scarce", "cpu", "scarce", "reference"]),
    bounds=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in BOUNDS.items()}),
    sample=st.sampled_from([1000, prefixes.SAMPLE_BYTES]),
    rules=all_rules,
)
def test_every_join_finds_the_pairs_of_a_full_comparison(
    kind: str, backend: str, bounds: dict[str, int], sample: int, rules: DropRules
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bounds.items():
            patch.setattr(large_buckets, name, value)
        patch.setattr(prefixes, "SAMPLE_BYTES", sample)
        assert joined(KINDS[kind], BACKENDS[backend], rules) == naive_of(kind, rules)


@pytest.mark.parametrize("first", [0, 1 << 40])
def test_memberships_are_grouped_by_sparse_document_numbers(first: int) -> None:
    """Numbers of a run are dense, those of a group of a large run are not."""
    members = Memberships(*(np.array(column) for column in ([7, 3, 3, 9, 7], [0, 0, 1, 1, 2], [3, 3, 3, 3, 7])))
    found = Collisions.from_buckets(
        np.empty((0, 2), np.int64), [members._replace(document=members.document + first)], 3
    )
    assert found.in_large.tolist() == [first + 3, first + 7, first + 9]
    assert found.bucket.tolist() == [[3, 3, -1], [3, -1, 7], [-1, 3, -1]]


def test_pages_that_meet_over_one_shingle_are_compared_by_bitmaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair by bitmaps costs a quarter of a match, which is sorted and looked up."""
    page = [f"w{place}" for place in range(60)]
    texts = [" ".join([*page[:30], f"own{number}", *page[31:]]) for number in range(400)]
    monkeypatch.setattr(large_buckets, "MAX_DOCUMENTS", 0)
    matched = record_calls(monkeypatch, Matches, "pairs")
    banding: dict[str, Any] = {"num_perm": 42, "bands": 42, "rows": 1}
    result = gpulsh.deduplicate(texts, threshold=0.9, backend="cpu", **banding)  # they are similar by 0.84
    assert result.funnel.crowded == result.funnel.kept == 400 and not matched


def test_near_copies_need_no_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is compared with the kept page, however many there are."""
    texts = near_copies(600, 600)
    monkeypatch.setattr(CpuBackend, "frequencies", None)
    monkeypatch.setattr(large_buckets, "MAX_DOCUMENTS", 0)
    kept, found = joined(texts, CpuBackend(2))
    assert (kept, found) == by_sets(texts) and sum(kept) == 1 and len(found) == 599
    result = gpulsh.deduplicate(texts, backend="cpu")
    assert result.funnel.crowded == 600 and result.funnel.kept == 1


def test_components_are_joined_without_a_pass_over_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an exact measure, each component with a large bucket is joined by itself."""
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", SMALL_BUCKET)
    chosen = record_calls(monkeypatch, Edges, "select")
    work = []
    for components in (10, 20):
        texts = [text for seed in range(components) for text in near_copies(30, seed)]
        result = gpulsh.deduplicate(texts, verify="none", backend="cpu")
        assert result.funnel.kept == components and result.funnel.crowded == len(texts)
        work.append(sum(len(rows) for _, rows in chosen if not isinstance(rows, slice)))
        chosen.clear()
    assert work[1] < 2.5 * work[0]


def test_a_small_join_reads_each_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bitmaps and the measure read the fingerprints held in memory."""
    read = record_calls(monkeypatch, ShingledTexts, "fingerprints")
    joined(pages(400, 6), CpuBackend(2))
    assert [len(places) for _, places in read] == [400]


def test_prefixes_find_documents_kept_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 to 512: the second and the last are joined by prefixes, the one between needs none."""
    one, other, third, fourth = (near_copies(*given) for given in ((900, 1), (28, 2), (20, 3), (20, 4)))
    texts = one[:164] + other + one[164:419] + third[:1] + one[419:] + fourth + third[1:]
    monkeypatch.setattr(large_buckets, "MAX_DOCUMENTS", 0)
    kept, found = joined(texts, CpuBackend(2))
    assert (kept, found) == by_sets(texts) and sum(kept) == 4


@pytest.mark.parametrize("most", [0, 4096])
def test_joins_that_do_not_fit_in_memory_are_halved(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    texts, sets = template(30), CpuBackend.shingle_sets

    def scarce(ops: CpuBackend, text: TextBatch, *given: Any) -> Any:
        if len(text) > 20:
            raise DeviceMemoryError("too many")
        return sets(ops, text, *given)

    monkeypatch.setattr(CpuBackend, "shingle_sets", scarce)
    monkeypatch.setattr(large_buckets, "MAX_DOCUMENTS", most)
    assert joined(texts, CpuBackend(1)) == by_sets(texts)


@pytest.mark.parametrize("sample", [1, 1 << 30])
def test_prefixes_hold_no_shingles_of_a_single_document(monkeypatch: pytest.MonkeyPatch, sample: int) -> None:
    """Pages of one frame find no other page by it, whichever part a sample has seen."""
    source = Random(3)
    frame = " ".join(f"frame{number}" for number in range(100))
    texts = [f"{frame} {' '.join(f'own{source.random()}' for _ in range(30))}" for _ in range(2000)]
    monkeypatch.setattr(prefixes, "SAMPLE_BYTES", sample)
    ops, every = CpuBackend(2), np.arange(len(texts))
    found = Prefixes(every, source_of(texts, ops), 0.8, ops, exact=True).entries(every)
    assert len(found.shingles) < len(texts) // 4


def test_pairs_that_share_a_rare_shingle_are_duplicates_without_verification() -> None:
    """Of 16 words, 4 are in the prefix: those of the document alone, and one that it shares with its neighbour."""
    common = " ".join(f"common{place}" for place in range(12))
    texts = [f"{common} own{n}a own{n}b own{n}c pair{n // 2}" for n in range(600)]
    signatures = np.asarray(gpulsh.MinHash(num_perm=1)(gpulsh.shingle(texts, shingling="word:1", backend="cpu")))[:, 0]
    wanted = [n - n % 2 * (signatures[n] == signatures[n - 1]) for n in range(600)]
    assert np.unique(signatures, return_counts=True)[1].max() > 256
    how: dict[str, Any] = {"shingling": "word:1", "threshold": 0.8, "num_perm": 1, "rows": 1, "backend": "cpu"}
    assert gpulsh.deduplicate(texts, verify="none", **how).duplicate_of.tolist() == wanted
