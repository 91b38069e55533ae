"""The join of large buckets, by every way to its pairs; `test_shared_sentences` has whole decisions."""

from functools import cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.decide import large_buckets, prefixes
from gpulsh.decide.large_buckets import LargeBucketJoin
from gpulsh.decide.prefixes import Prefixes
from gpulsh.decide.readable import ShingledTexts
from gpulsh.decide.relation import ALL, Edges, Relation
from gpulsh.decide.resolve import resolve_kept
from gpulsh.errors import DeviceMemoryError
from gpulsh.io.memory.texts import open_texts
from gpulsh.lsh.collisions import Collisions, Memberships
from gpulsh.method import Method
from tests.decide.test_shared_sentences import pages

Outcome = tuple[list[bool], list[tuple[int, int, float]]]
NONE = np.empty(0, np.int64)
OWN = [f"own{number}" for number in range(50_000)]


def readable_of(texts: list[str], ops: Backend) -> ShingledTexts:
    ids = np.arange(len(texts))
    return ShingledTexts(ids, ops, open_texts(pa.array(texts), ops).choose(ids), Method.chosen(), None)


def joined(texts: list[str], ops: Backend, relation: Relation = ALL) -> Outcome:
    """The kept documents, and the edges, where all documents are in one large bucket."""
    ids = np.arange(len(texts))
    met = Collisions.of(np.empty((0, 2), np.int64), Memberships(ids, np.zeros_like(ids), np.zeros_like(ids)), 1)
    join = LargeBucketJoin(ids, met, readable_of(texts, ops), Method.chosen(), ops, relation)
    kept, edges = resolve_kept(len(texts), Edges(NONE, NONE, np.empty(0)), join, ids, ops)
    found = zip(edges.earlier.tolist(), edges.later.tolist(), edges.similarity.tolist(), strict=True)
    return kept.tolist(), list(found)


@cache
def naive_of(kind: str, relation: Relation) -> Outcome:
    return naive(KINDS[kind], relation)


def naive(texts: list[str], relation: Relation = ALL) -> Outcome:
    """The same, of every document with every kept one before it; one that only asks is compared with no other."""
    sets = [set(zip(*(text.split()[at:] for at in range(5)), strict=False)) for text in texts]
    witnesses: list[int] = []
    kept, found = [True] * len(texts), []
    for later, own in enumerate(sets):
        if later >= relation.protected:
            alike = [(earlier, later, len(sets[earlier] & own) / len(sets[earlier] | own)) for earlier in witnesses]
            alike = [edge for edge in alike if edge[2] >= 0.8]
            found += alike
            kept[later] = not alike
        if kept[later] and (relation.asking is None or later < relation.asking):
            witnesses.append(later)
    return kept, sorted(found)


@cache
def template(own: int) -> list[str]:
    """Pages of one frame with `own` words of their own; every fourth is nearly an earlier page."""
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


KINDS = {
    "own": template(60),
    "copies": near_copies(100, 1) + template(30),
    "sentences": pages(80, 6),
    "one": ["a b c d e f"],
}
BACKENDS = {"cpu": CpuBackend(2), "one thread": CpuBackend(1), "scarce": CpuBackend(2, memory=1 << 18)}
BACKENDS["reference"] = ReferenceBackend()
BOUNDS = {"FEW_KEPT": [0, 8, 64], "FEW_DOCUMENTS": [0, 64], "FIRST_BLOCK": [1, 64, 1 << 20]}
BOUNDS |= {"LARGEST_JOIN": [500, 1 << 22], "MOST_DOCUMENTS": [0, 4096]}
relations = st.sampled_from([ALL, Relation(protected=40), Relation(protected=40, asking=40), Relation(asking=60)])


@settings(max_examples=10)
@given(
    kind=st.sampled_from(list(KINDS)),
    backend=st.sampled_from(["cpu", "one thread", "scarce", "cpu", "scarce", "reference"]),
    bounds=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in BOUNDS.items()}),
    sample=st.sampled_from([1000, prefixes.SAMPLE_BYTES]),
    relation=relations,
)
def test_every_way_to_the_pairs_finds_what_all_pairs_do(
    kind: str, backend: str, bounds: dict[str, int], sample: int, relation: Relation
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bounds.items():
            patch.setattr(large_buckets, name, value)
        patch.setattr(prefixes, "SAMPLE_BYTES", sample)
        assert joined(KINDS[kind], BACKENDS[backend], relation) == naive_of(kind, relation)


@pytest.mark.parametrize("first", [0, 1 << 40])
def test_memberships_go_by_document_however_sparse(first: int) -> None:
    """Numbers of a run are dense, those of a group of a large run are not."""
    crowd = Memberships(*(np.array(column) for column in ([7, 3, 3, 9, 7], [0, 0, 1, 1, 2], [3, 3, 3, 3, 7])))
    found = Collisions.of(np.empty((0, 2), np.int64), crowd._replace(document=crowd.document + first), 3)
    assert found.in_large.tolist() == [first + 3, first + 7, first + 9]
    assert found.bucket.tolist() == [[3, 3, -1], [3, -1, 7], [-1, 3, -1]]


def test_near_copies_need_no_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared with the page that is kept, however many they are."""
    texts = near_copies(600, 600)

    def refused(*given: Any) -> Any:
        raise AssertionError("frequencies of near-copies")

    monkeypatch.setattr(CpuBackend, "frequencies", refused)
    monkeypatch.setattr(large_buckets, "MOST_DOCUMENTS", 0)
    kept, found = joined(texts, CpuBackend(2))
    assert (kept, found) == naive(texts) and sum(kept) == 1 and len(found) == 599
    result = gpulsh.deduplicate(texts, backend="cpu")
    assert result.funnel.crowded == 600 and result.funnel.kept == 1


def test_a_kept_document_is_found_by_prefixes_whatever_way_its_block_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64, 128, 256 and 512: the second and the last are joined by prefixes, the one between needs none."""
    one, other, third, fourth = (near_copies(*given) for given in ((900, 1), (28, 2), (20, 3), (20, 4)))
    texts = one[:164] + other + one[164:419] + third[:1] + one[419:] + fourth + third[1:]
    monkeypatch.setattr(large_buckets, "MOST_DOCUMENTS", 0)
    kept, found = joined(texts, CpuBackend(2))
    assert (kept, found) == naive(texts) and sum(kept) == 4


@pytest.mark.parametrize("most", [0, 4096])
def test_documents_that_do_not_fit_together_are_joined_by_halves(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    texts, sets = template(30), CpuBackend.shingle_sets

    def scarce(ops: CpuBackend, text: TextBatch, *given: Any) -> Any:
        if len(text) > 20:
            raise DeviceMemoryError("too many")
        return sets(ops, text, *given)

    monkeypatch.setattr(CpuBackend, "shingle_sets", scarce)
    monkeypatch.setattr(large_buckets, "MOST_DOCUMENTS", most)
    assert joined(texts, CpuBackend(1)) == naive(texts)


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("texts", [template(60), pages(80, 6)], ids=["own", "pages"])
def test_prefixes_are_the_same_held_or_made_again(texts: list[str], is_exact: bool) -> None:
    """Also where the budget does not hold them; of a document, or of several in any order."""
    held, again = (
        Prefixes(np.arange(len(texts)), readable_of(texts, ops), 0.8, ops, exact=is_exact)
        for ops in (BACKENDS["cpu"], BACKENDS["scarce"])
    )
    assert len(held.of(np.arange(len(texts))).shingles) > len(texts)
    for places in (np.arange(len(texts)), np.array([7]), np.array([150, 3, 40]) % len(texts)):
        one, other = held.of(places), again.of(places)
        assert np.array_equal(one.shingles, other.shingles) and np.array_equal(one.documents, other.documents)
    assert np.array_equal(held.sizes, again.sizes)


@pytest.mark.parametrize("sample", [1, 1 << 30])
def test_own_content_leaves_no_prefix(monkeypatch: pytest.MonkeyPatch, sample: int) -> None:
    """Pages of one frame lead to nobody, whatever part of them a sample knows."""
    source = Random(3)
    frame = " ".join(f"frame{number}" for number in range(100))
    texts = [f"{frame} {' '.join(f'own{source.random()}' for _ in range(30))}" for _ in range(2000)]
    monkeypatch.setattr(prefixes, "SAMPLE_BYTES", sample)
    ops, every = CpuBackend(2), np.arange(len(texts))
    found = Prefixes(every, readable_of(texts, ops), 0.8, ops, exact=True).of(every)
    assert len(found.shingles) < len(texts) // 4
