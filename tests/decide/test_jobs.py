"""The main job by containment, against naive sets, and by SimHash, through every interface."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.backends.protocol import Sizes
from gpulsh.cli import group as command
from gpulsh.decide import meeting
from gpulsh.decide.decision import COLUMNS
from gpulsh.decide.fingerprint_source import ShingledTexts
from gpulsh.decide.prefixes import Owners
from gpulsh.lsh.pairs import pack_pairs
from gpulsh.ragged import total_size
from tests.sketch.test_main_job import decide_all_ways, documents, dropped_rows
from tests.support import naive
from tests.support.files import write_rows
from tests.support.runs import evidence
from tests.support.texts import every_backend

SHINGLING = gpulsh.Shingling(size=2)
words = st.sampled_from(list("abcdef"))
some_texts = st.lists(st.lists(words, max_size=12).map(" ".join) | st.none(), max_size=12)


def by_sets(texts: list[str | None], threshold: float, priority: list[float] | None, either: bool) -> naive.Decision:
    """The naive decision over all pairs; `either` divides by the smaller set."""
    tokens = [tuple((text or "").split()) for text in texts]
    sets = [set(naive.shingles(words, 2)) for words in tokens]

    def contained(earlier: int, later: int) -> float:
        least = min(len(sets[earlier]), len(sets[later])) if either else len(sets[later])
        return len(sets[earlier] & sets[later]) / least

    ranks = [float(len((text or "").encode())) for text in texts] if priority is None else priority
    return naive.greedy(naive.Documents(tokens, [[0]] * len(texts), contained), threshold, ranks)


@every_backend
@given(
    texts=some_texts,
    threshold=st.sampled_from([0.3, 0.5, 0.8, 1.0]),
    either=st.booleans(),
    join=st.sampled_from([1 << 22, 7, 1]),
    data=st.data(),
)
def test_containment_decisions_equal_those_of_naive_sets(
    backend: Any, texts: list[str | None], threshold: float, either: bool, join: int, data: st.DataObject
) -> None:
    ranks = st.lists(st.integers(0, 3).map(float), min_size=len(texts), max_size=len(texts))
    priority = data.draw(st.none() | ranks)
    options: dict[str, Any] = {"threshold": threshold, "shingling": SHINGLING, "drop_contained_only": not either}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.decide.prefixes.LARGEST_JOIN", join)
        found = gpulsh.deduplicate(texts, measure="containment", priority=priority, backend=backend, **options)
    wanted = by_sets(texts, threshold, priority, either)
    assert found.duplicate_of.tolist() == wanted.duplicate_of
    np.testing.assert_array_equal(found.similarity, np.array(wanted.similarity, np.float32))


def test_a_quote_is_dropped_whichever_page_comes_first() -> None:
    page = " ".join(f"word{i}" for i in range(400))
    quote = " ".join(f"word{i}" for i in range(100, 160))
    for texts in ([quote, page, "other words here"], [page, "other words here", quote]):
        found = gpulsh.deduplicate(texts, measure="containment", backend="cpu")
        assert [texts[i] for i in np.flatnonzero(~found.keep)] == [quote]
        assert found.pair_similarity.tolist() == [1.0]
        assert gpulsh.deduplicate(texts, backend="cpu").keep.all()  # their Jaccard similarity is small


def test_a_page_larger_than_memory_is_not_read_for_each_quote(monkeypatch: pytest.MonkeyPatch) -> None:
    page = [f"word{i}" for i in range(2000)]
    texts = [" ".join(page), *(" ".join(page[first : first + 9]) for first in range(0, 2000, 10))]
    monkeypatch.setattr("gpulsh.backends.cpu.SIZES", Sizes(batch=1000, tile=1000, largest_tile=4000, whole=8000))
    read, batch = list[int](), ShingledTexts._batch
    monkeypatch.setattr(ShingledTexts, "_batch", lambda *of: read.append(total_size(found := batch(*of))) or found)
    assert gpulsh.deduplicate(texts, measure="containment", backend="cpu").duplicate_of.tolist() == [0] * len(texts)
    assert 3 < sum(size == len(texts[0]) for size in read) < 30


def test_a_pair_of_many_fingerprints_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fingerprints come one after another from files and indexes, each with many documents."""
    fingerprints, documents = np.repeat(np.arange(20, dtype=np.uint64), 40), np.tile(np.arange(40), 20)
    monkeypatch.setattr("gpulsh.decide.prefixes.LARGEST_JOIN", 2 * 20 * 40)  # rows of two holders
    owners = Owners(fingerprints, documents)
    parts = [pack_pairs(*part) for part in owners.pairs_at(*owners.find(fingerprints, documents))]
    assert len(parts) == 20 and sum(len(np.unique(part)) for part in parts) == 40 * 40


def test_exact_copies_have_similarity_1_without_verification(tmp_path: Path) -> None:
    page = " ".join(f"word{i}" for i in range(40))
    files = [write_rows(tmp_path / "a.jsonl", [page]), write_rows(tmp_path / "b.jsonl", [page.upper(), f"{page} end"])]
    gpulsh.deduplicate_files(files, tmp_path / "out", verify="none", across=True, backend="cpu")
    similarity = [row["similarity"] for row in evidence(tmp_path / "out")]
    assert similarity[0] == 1 and np.isnan(similarity[1])


# --- the main job by SimHash


@every_backend
def test_simhash_candidates_are_those_within_the_distance(backend: Any) -> None:
    texts = [*documents(60), None, "", "..."]
    fingerprints = gpulsh.shingle(texts, backend=backend)
    filled = np.flatnonzero(np.diff(fingerprints.offset) > 0)
    for sketch, distance in ((gpulsh.SimHash(bits=64), 3), (gpulsh.SimHash(bits=128, weights="count"), 10)):
        found = gpulsh.deduplicate(texts, threshold=0.6, sketch=sketch, distance=distance, backend=backend)
        bits = gpulsh.BitSignatures(sketch.from_texts(texts, backend=backend).values[filled])
        search = gpulsh.HammingTables(bits=sketch.bits, distance=distance)
        near = filled[search.pairs(bits, backend=backend)]
        near = near[gpulsh.jaccard(fingerprints, near, backend=backend) >= 0.6]
        assert set(map(tuple, near.tolist())) <= set(map(tuple, found.pairs.tolist())) and len(near) > 3
        assert (found.similarity >= 0.6).all() and found.keep[-3:].all()


@every_backend
def test_also_keeps_only_pairs_within_the_distance(backend: Any) -> None:
    texts = documents()
    sketch, distance = gpulsh.SimHash(bits=128), 12
    whole = gpulsh.deduplicate(texts, threshold=0.6, backend=backend)
    found = gpulsh.deduplicate(texts, threshold=0.6, also=sketch, distance=distance, backend=backend)
    apart = gpulsh.hamming(sketch.from_texts(texts, backend=backend), whole.pairs, backend=backend)
    wanted = {tuple(pair) for pair in whole.pairs[apart <= distance].tolist()}
    assert {tuple(pair) for pair in found.pairs.tolist()} == wanted
    assert 5 < len(wanted) < len(whole.pairs)
    everything = gpulsh.deduplicate(texts, threshold=0.6, also=sketch, distance=127, backend=backend)
    np.testing.assert_array_equal(everything.duplicate_of, whole.duplicate_of)


def test_also_applies_in_large_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, given = documents(), {"also": gpulsh.SimHash(bits=128), "distance": 12, "threshold": 0.6, "backend": "cpu"}
    wanted = gpulsh.deduplicate(texts, **given)  # type: ignore[arg-type]
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 1)
    found = gpulsh.deduplicate(texts, **given)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.duplicate_of, wanted.duplicate_of)


@every_backend
def test_many_candidates_are_compared_in_pieces(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, compared, compare = documents(), list[int](), meeting.compare
    given: dict[str, Any] = {"sketch": "simhash", "also": "simhash:128", "threshold": 0.6, "backend": backend}
    wanted = gpulsh.deduplicate(texts, **given)
    monkeypatch.setattr(meeting, "compare", lambda pairs, *rest: compared.append(len(pairs)) or compare(pairs, *rest))
    monkeypatch.setattr("gpulsh.lsh.collisions.MOST_PAIRS", 100)
    monkeypatch.setattr("gpulsh.lsh.collisions.DOCUMENT_PAIRS", 1)
    found = gpulsh.deduplicate(texts, **given)
    for name in (*COLUMNS, "pairs", "pair_similarity"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert found.funnel.candidates == wanted.funnel.candidates > 500
    assert len(compared) > 3 and max(compared) <= 100 + len(texts)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"sketch": gpulsh.SimHash(bits=64), "distance": 3}, "--sketch simhash:64:3"),
        ({"seed": 7, "also": gpulsh.SimHash(bits=128, seed=7), "distance": 12}, "--and simhash:128:12 --seed 7"),
        ({"sketch": gpulsh.SimHash(), "also": gpulsh.SimHash(bits=128)}, "--sketch simhash --and simhash:128"),
    ],
)
def test_files_and_the_command_decide_as_in_memory(given: dict[str, Any], options: str, tmp_path: Path) -> None:
    _, parameters = decide_all_ways(documents(), given, options, tmp_path)
    near = parameters["near" if "sketch" in given else "also"]
    assert near["distance"] == given.get("distance", 15) and near["seed"] == given.get("seed", 1)
    if given.get("distance") == 3:
        assert "in the key of one of 10 tables" in (tmp_path / "two/report.html").read_text()


def test_runs_with_an_index_of_bits_decide_as_in_memory(tmp_path: Path) -> None:
    texts = [*documents()[::2], *documents()[1::2]]
    half, found = len(texts) // 2, []
    for name, part in (("a", slice(half)), ("b", slice(half, None))):
        given = write_rows(tmp_path / f"{name}.parquet", texts[part])
        asked = ["dedup", given, "-o", str(tmp_path / name), "--index", str(tmp_path / "i"), "--threshold", "0.6"]
        ran = CliRunner().invoke(command, [*asked, "--sketch", "simhash:64:3", "--backend", "cpu"])
        assert ran.exit_code == 0, ran.output
        found += [part.indices(len(texts))[0] + row for row in dropped_rows(tmp_path / name)]
    wanted = gpulsh.deduplicate(texts, threshold=0.6, sketch=gpulsh.SimHash(), distance=3, backend="cpu")
    assert found == np.flatnonzero(~wanted.keep).tolist() and found[-1] >= half


def test_without_a_distance_pairs_at_the_threshold_are_found() -> None:
    generator, pairs, words = np.random.default_rng(3), 200, 400
    texts = []
    for pair in range(pairs):
        one = [f"w{word}x{pair}" for word in generator.integers(0, 1 << 40, words)]
        texts += [" ".join(one), " ".join([*one[:150], *(f"n{word}" for word in one[150:189]), *one[189:]])]
    similarity = gpulsh.jaccard(gpulsh.shingle(texts, backend="cpu"), [[0, 1]], backend="cpu")
    assert 0.8 <= similarity < 0.805
    ways: list[dict[str, Any]] = [{"sketch": gpulsh.SimHash()}, {"also": gpulsh.SimHash()}]
    ways += [{"also": gpulsh.SimHash(bits=384)}, {"sketch": gpulsh.SimHash(), "also": gpulsh.SimHash()}]
    for way in ways:
        assert len(gpulsh.deduplicate(texts, backend="cpu", **way).pairs) >= 0.97 * pairs
    near: dict[str, Any] = {"backend": "cpu", "distance": 3}
    assert len(gpulsh.deduplicate(texts, also=gpulsh.SimHash(), **near).pairs) < 0.1 * pairs
    assert len(gpulsh.deduplicate(texts, sketch=gpulsh.SimHash(), **near).pairs) < 0.3 * pairs
