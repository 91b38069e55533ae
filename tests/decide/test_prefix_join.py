"""What the join of large buckets holds, and what it does without; `test_shared_sentences` has its decisions."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.decide import large_buckets, prefix_join, prefixes
from gpulsh.decide.large_buckets import BucketDocuments, HeldJoin, LargeBucketJoin, can_be_held
from gpulsh.decide.prefix_join import PrefixJoin
from gpulsh.decide.prefixes import Prefixes
from gpulsh.decide.readable import ShingledTexts
from gpulsh.decide.relation import ALL, Edges, Relation
from gpulsh.decide.resolve import resolve_kept
from gpulsh.errors import DeviceMemoryError
from gpulsh.io.memory.texts import open_texts
from gpulsh.lsh.collisions import Collisions, Memberships
from gpulsh.method import Method
from tests.decide.test_shared_sentences import pages
from tests.support.traced import at_most

NONE = np.empty(0, np.int64)
OWN = [f"own{number}" for number in range(50_000)]


def readable_of(texts: list[str], ops: Backend, threshold: float = 0.8) -> ShingledTexts:
    ids = np.arange(len(texts))
    method = Method.chosen(threshold=threshold, verify="exact", resolve="kept")
    return ShingledTexts(ids, ops, open_texts(pa.array(texts), ops).choose(ids), method, None)


def prefixes_of(texts: list[str], ops: Backend, is_exact: bool) -> Prefixes:
    readable = readable_of(texts, ops)
    return Prefixes(np.arange(len(texts)), readable, 0.8, ops, exact=is_exact)


def join_of(
    texts: list[str],
    ops: Backend,
    threshold: float = 0.8,
    relation: Relation = ALL,
    kind: type[LargeBucketJoin] = PrefixJoin,
) -> LargeBucketJoin:
    """All documents in one large bucket."""
    ids, readable = np.arange(len(texts)), readable_of(texts, ops, threshold)
    crowd = Memberships(ids, np.zeros_like(ids), np.zeros_like(ids))
    met = Collisions.of(np.empty((0, 2), np.int64), crowd, 1)
    return kind(BucketDocuments(ids, met, readable, Method.chosen(threshold=threshold), ops, relation))


def joined(join: LargeBucketJoin, count: int) -> tuple[list[bool], list[tuple[int, int, float]]]:
    kept, edges = resolve_kept(count, Edges(NONE, NONE, np.empty(0)), join, np.arange(count))
    found = zip(edges.earlier.tolist(), edges.later.tolist(), edges.similarity.tolist(), strict=True)
    return kept.tolist(), list(found)


def all_pairs(texts: list[str], threshold: float) -> tuple[list[bool], list[tuple[int, int, float]]]:
    """The same, of every document with every kept one before it."""
    sets = [set(zip(*(text.split()[at:] for at in range(5)), strict=False)) for text in texts]
    kept: list[int] = []
    found = []
    for later, own in enumerate(sets):
        alike = [(earlier, later, len(sets[earlier] & own) / len(sets[earlier] | own)) for earlier in kept]
        alike = [edge for edge in alike if edge[2] >= threshold]
        found += alike
        if not alike:
            kept.append(later)
    return [number in set(kept) for number in range(len(texts))], sorted(found)


def template(own: int) -> list[str]:
    """Pages of one frame with `own` words of their own; every fourth is nearly an earlier page."""
    source = Random(own)
    frame = [f"frame{number}" for number in range(60)]
    found: list[list[str]] = []
    for number in range(200):
        page = source.choices(OWN, k=own)
        if number % 4 == 3:
            page = found[source.randrange(number)].copy()
            page[source.randrange(own)] = source.choice(OWN)
        found.append(page)
    return [" ".join(frame[:30] + page + frame[30:]) for page in found]


def near_copies(count: int, seed: int | None = None) -> list[str]:
    source = Random(count if seed is None else seed)
    page = source.choices(OWN, k=200)
    copies = []
    for _ in range(count):
        copy = page.copy()
        copy[source.randrange(200)] = source.choice(OWN)
        copies.append(" ".join(copy))
    return copies


def test_what_is_held_follows_the_budget() -> None:
    """Counts, entries, matches and the texts of a block together, of 5,000 pages that share nearly all."""
    texts = pages(5000, 20)
    joined(join_of(texts[:100], CpuBackend(2)), 100)  # compiled, and caches filled
    join = join_of(texts, CpuBackend(2, memory=64 << 20))
    with at_most(60 << 20):
        kept, _ = joined(join, len(texts))
    assert 4000 < sum(kept) < 5000


@pytest.mark.parametrize("texts", [template(60), near_copies(100) + template(30)], ids=["own", "copies"])
def test_who_only_asks_meets_those_before_alone(texts: list[str]) -> None:
    """None is compared with one that asks, so that a query costs what it finds and not what it asks."""
    base = 40
    join = join_of(texts, CpuBackend(2), relation=Relation(protected=base, asking=base))
    kept, found = joined(join, len(texts))
    assert all(kept[:base]) and kept[base:].count(False) > 0
    sets = [set(zip(*(text.split()[at:] for at in range(5)), strict=False)) for text in texts]
    pairs = [
        (i, j, len(sets[i] & sets[j]) / len(sets[i] | sets[j])) for i in range(base) for j in range(base, len(sets))
    ]
    assert found == [pair for pair in pairs if pair[2] >= 0.8]
    assert join._known.tolist() == list(range(base))


@pytest.mark.parametrize("first", [0, 1 << 40])
def test_memberships_go_by_document_however_sparse(first: int) -> None:
    """Numbers of a run are dense, those of a group of a large run are not."""
    crowd = Memberships(*(np.array(column) for column in ([7, 3, 3, 9, 7], [0, 0, 1, 1, 2], [3, 3, 3, 3, 7])))
    found = Collisions.of(np.empty((0, 2), np.int64), crowd._replace(document=crowd.document + first), 3)
    assert found.in_large.tolist() == [first + 3, first + 7, first + 9]
    assert found.bucket.tolist() == [[3, 3, -1], [3, -1, 7], [-1, 3, -1]]


def test_near_copies_need_no_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read once for the join, and compared with the page that is kept."""
    texts = near_copies(600)

    def refused(*given: Any) -> Any:
        raise AssertionError("frequencies of near-copies")

    monkeypatch.setattr(CpuBackend, "text_frequencies", refused)
    kept, found = joined(join_of(texts, CpuBackend(2)), len(texts))
    assert (kept, found) == all_pairs(texts, 0.8)
    assert sum(kept) == 1 and len(found) == 599
    result = gpulsh.deduplicate(texts, backend="cpu")
    assert result.funnel.crowded == 600 and result.funnel.kept == 1


def test_a_kept_document_is_found_by_prefixes_whatever_way_its_block_took() -> None:
    """Blocks of 64, 128, 256 and 512: the second and the last are joined by prefixes, the one between needs none."""
    one, other, third, fourth = near_copies(900, 1), near_copies(28, 2), near_copies(20, 3), near_copies(20, 4)
    texts = one[:164] + other + one[164:419] + third[:1] + one[419:] + fourth + third[1:]
    kept, found = joined(join_of(texts, CpuBackend(2)), len(texts))
    assert (kept, found) == all_pairs(texts, 0.8)
    assert sum(kept) == 4


def test_what_does_not_fit_together_is_indexed_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, sets = template(30), CpuBackend.shingle_sets

    def scarce(ops: CpuBackend, text: TextBatch, *given: Any) -> Any:
        if len(text) > 20:
            raise DeviceMemoryError("too many")
        return sets(ops, text, *given)

    monkeypatch.setattr(CpuBackend, "shingle_sets", scarce)
    assert joined(join_of(texts, CpuBackend(1)), len(texts)) == all_pairs(texts, 0.8)


@pytest.mark.parametrize(
    "texts", [template(60), near_copies(100) + template(30), pages(80, 6)], ids=["own", "copies", "pages"]
)
def test_the_way_to_the_pairs_is_no_matter(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    wanted = all_pairs(texts, 0.8)
    whole = prefixes.SAMPLE_BYTES
    for few in (0, 8, 64):
        monkeypatch.setattr(prefix_join, "FEW_KEPT", few)
        monkeypatch.setattr(prefix_join, "FIRST_BLOCK", max(few, 1))
        for sample in (whole, 1000):
            monkeypatch.setattr(prefixes, "SAMPLE_BYTES", sample)
            for ops in CpuBackend(2, memory=1 << 18), CpuBackend(1):
                assert joined(join_of(texts, ops), len(texts)) == wanted
    assert joined(join_of(texts, ReferenceBackend()), len(texts)) == wanted


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("texts", [template(60), pages(80, 6)], ids=["own", "pages"])
def test_prefixes_are_the_same_held_or_made_again(texts: list[str], is_exact: bool) -> None:
    """What the budget does not hold is counted all the same; of a document, or of several in any order."""
    ops, scarce = CpuBackend(2), CpuBackend(1, memory=1 << 18)
    held, again = (prefixes_of(texts, one, is_exact) for one in (ops, scarce))
    assert len(held.of(np.arange(len(texts))).shingles) > len(texts)
    for places in (np.arange(len(texts)), np.array([7]), np.array([150, 3, 40]) % len(texts)):
        one, other = held.of(places), again.of(places)
        assert np.array_equal(one.shingles, other.shingles) and np.array_equal(one.documents, other.documents)
    assert np.array_equal(held.sizes, again.sizes)


def test_of_own_content_no_prefix_is_left() -> None:
    """Pages of one frame lead to nobody, whatever part of them a sample knows."""
    source = Random(3)
    frame = " ".join(f"frame{number}" for number in range(100))
    texts = [f"{frame} {' '.join(f'own{source.random()}' for _ in range(30))}" for _ in range(2000)]
    for size in (1, 1 << 30):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prefixes, "SAMPLE_BYTES", size)
            assert len(prefixes_of(texts, CpuBackend(2), True).of(np.arange(len(texts))).shingles) < len(texts) // 4


def test_prefixes_of_shingles_that_all_have_in_common() -> None:
    """Counts that stop, few and many of them in a row, and prefixes that end before, among and behind them."""
    source = np.random.default_rng(1)
    rows = np.sort(source.integers(0, 1 << 64, (40, 50), dtype=np.uint64), axis=1)
    fingerprints = gpulsh.Fingerprints(rows.ravel(), np.arange(0, rows.size + 1, 50))
    for share in (0.0, 0.1, 0.8, 1.0):
        counts = source.choice(np.array([1, 2, 3, 254], np.uint8), 1 << 16)
        counts[source.random(len(counts)) < share] = 255
        for lengths in (source.integers(0, 51, len(rows)), np.full(len(rows), 50), np.zeros(len(rows), np.int64)):
            found, wanted = (ops.prefixes(fingerprints, counts, lengths) for ops in (CpuBackend(2), ReferenceBackend()))
            assert np.array_equal(found.offset, wanted.offset) and np.array_equal(found.values, wanted.values)


# --- few documents, whose fingerprints are all held

KINDS = {
    "own": template(60),
    "copies": near_copies(100) + template(30),
    "sentences": pages(80, 6),
    "one": ["a b c d e f"],
}


@pytest.mark.parametrize("texts", KINDS.values(), ids=KINDS)
def test_it_finds_what_all_pairs_do(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    wanted = all_pairs(texts, 0.8)
    backends: list[Backend] = [CpuBackend(1), CpuBackend(2), ReferenceBackend()]
    for first, most in ((64, 1 << 22), (1, 1 << 22), (1 << 20, 1 << 22), (64, 50)):
        monkeypatch.setattr(large_buckets, "FIRST_BLOCK", first)
        monkeypatch.setattr(large_buckets, "LARGEST_JOIN", most)
        for ops in backends:
            assert joined(join_of(texts, ops, kind=HeldJoin), len(texts)) == wanted


def test_who_asks_and_who_is_protected_are_as_by_prefixes() -> None:
    texts = near_copies(100) + template(30)
    for relation in Relation(protected=40, asking=40), Relation(protected=40):
        held, by_prefixes = (
            joined(join_of(texts, CpuBackend(2), relation=relation, kind=kind), len(texts))
            for kind in (HeldJoin, PrefixJoin)
        )
        assert held == by_prefixes and held[0].count(False) > 0


def test_what_can_be_held_is_few_short_and_measured() -> None:
    texts, exact = template(60), Method.chosen()
    readable = readable_of(texts, CpuBackend(1))
    assert can_be_held(readable, exact, CpuBackend(1))
    assert not can_be_held(readable, exact, CpuBackend(1, memory=1 << 18))
    assert not can_be_held(readable, Method.chosen(verify="signature"), CpuBackend(1))
    many = readable.renumbered(np.arange(large_buckets.MOST_DOCUMENTS + 1) % len(texts))
    assert not can_be_held(many, exact, CpuBackend(1))


def test_what_a_device_does_not_hold_is_joined_by_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = near_copies(300) + template(60)
    given: dict[str, Any] = {"backend": "cpu", "num_perm": 42, "bands": 42, "rows": 1}
    wanted = gpulsh.deduplicate(pa.array(texts), **given)
    assert wanted.funnel.crowded > 250
    sets, refused = CpuBackend.shingle_sets, []

    def scarce(ops: CpuBackend, text: TextBatch, *others: Any) -> Any:
        if len(text) > 250:
            refused.append(len(text))
            raise DeviceMemoryError("too many")
        return sets(ops, text, *others)

    monkeypatch.setattr(CpuBackend, "shingle_sets", scarce)
    found = gpulsh.deduplicate(pa.array(texts), **given)
    assert refused
    for name in ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
