"""Laws for any schedule: order, batches, threads and chunks change no result; estimates err as theory says."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpulsh
from gpulsh import Decision, Fingerprints, Shingling
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import sketched
from gpulsh.params import Family
from tests.support.bounds import set_bounds
from tests.support.texts import batch_of, batches, licences, shinglings

CHARACTERS = Shingling(unit="char", size=2)


def all_results(texts: list[str], threads: int | None = None) -> list[NDArray[Any]]:
    """All results of the steps of the main job, arrays in one list."""
    options: dict[str, Any] = {"backend": "cpu", "threads": threads}
    fingerprints = gpulsh.shingle(texts, **options)
    signatures = gpulsh.MinHash()(fingerprints, **options)
    digests = gpulsh.Banding(bands=21, rows=6)(signatures, **options)
    pairs = gpulsh.candidate_pairs(digests, **options)
    found = [fingerprints.values, fingerprints.offset, signatures.values, digests.values, pairs]
    found += [gpulsh.MinHash().from_texts(texts, **options).values]
    found += [gpulsh.jaccard(fingerprints, pairs, **options), gpulsh.jaccard(signatures, pairs, **options)]
    found += [gpulsh.containment(fingerprints, pairs, **options)]
    for verify in ("exact", "signature"):
        found += decision_arrays(gpulsh.deduplicate(texts, verify=verify, **options))  # type: ignore[arg-type]
    # So few rows that hundreds share a bucket, which takes the other path.
    crowded = gpulsh.deduplicate(texts, num_perm=4, bands=4, rows=1, shingling=CHARACTERS, **options)
    assert crowded.funnel.crowded > 256
    return found + decision_arrays(crowded)


def decision_arrays(result: Decision) -> list[NDArray[Any]]:
    return [getattr(result, n) for n in ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity")]


@pytest.fixture(scope="module")
def notices() -> list[str]:
    """The beginnings of real notices, short enough for batches of one byte."""
    return [text[:300] for text in licences()[-450:]]


@pytest.fixture(scope="module")
def wanted(notices: list[str]) -> list[NDArray[Any]]:
    return all_results(notices)


@pytest.mark.parametrize(("size", "items", "threads"), [(2000, 7, 5), (30_000, 100, 1), (1 << 30, 1 << 20, 5)])
def test_batches_chunks_and_threads_change_nothing(
    notices: list[str], wanted: list[NDArray[Any]], size: int, items: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bounds(monkeypatch, size, items)
    for found, expected in zip(all_results(notices, threads), wanted, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_the_order_of_documents_changes_positions_alone(notices: list[str]) -> None:
    """Shuffled documents, decided in the first order by priority, give the same result."""
    options: dict[str, Any] = {"backend": "cpu", "num_perm": 4, "bands": 4, "rows": 1, "shingling": CHARACTERS}
    for chosen in ({"backend": "cpu"}, options):
        straight = gpulsh.deduplicate(notices, **chosen)
        place = np.random.default_rng(4).permutation(len(notices))  # the new list has notices[place[i]] at i
        mixed = gpulsh.deduplicate([notices[i] for i in place], priority=-place, **chosen)
        np.testing.assert_array_equal(mixed.keep, straight.keep[place])
        np.testing.assert_array_equal(place[mixed.duplicate_of], straight.duplicate_of[place])
        np.testing.assert_array_equal(mixed.similarity, straight.similarity[place])
        moved = zip(np.sort(place[mixed.pairs], axis=1).tolist(), mixed.pair_similarity.tolist(), strict=True)
        stayed = zip(straight.pairs.tolist(), straight.pair_similarity.tolist(), strict=True)
        assert sorted(moved) == sorted(stayed)
        # A cluster is named by its smallest position, so its members are compared.
        assert members(place, mixed.cluster) == members(np.arange(len(place)), straight.cluster)


def members(place: NDArray[np.int64], cluster: NDArray[np.int64]) -> set[frozenset[int]]:
    found: dict[int, set[int]] = {}
    for position, label in zip(place.tolist(), cluster.tolist(), strict=True):
        found.setdefault(label, set()).add(position)
    return {frozenset(of_one) for of_one in found.values()}


def test_signatures_do_not_depend_on_other_documents(notices: list[str]) -> None:
    whole = gpulsh.MinHash().from_texts(notices, backend="cpu").values
    for part in (slice(3, 4), slice(100, 180), slice(None, None, -7)):
        np.testing.assert_array_equal(gpulsh.MinHash().from_texts(notices[part], backend="cpu").values, whole[part])


@settings(max_examples=12)
@given(batches(), batches(), shinglings, st.integers(1, 20), st.integers(0, 9))
def test_the_signature_of_a_union_is_the_minimum_of_both(
    left: Any, right: Any, shingling: Shingling, num_perm: int, seed: int
) -> None:
    ops, family = CpuBackend(1), Family(num_perm=num_perm, seed=seed)
    a, b = ops.shingle(left, shingling).values, ops.shingle(right, shingling).values
    rows = Fingerprints(np.concatenate([a, b, a, b]), np.cumsum([0, len(a), len(b), len(a) + len(b)]))
    one, two, both = sketched(ops, rows, family)
    np.testing.assert_array_equal(both, np.minimum(one, two))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.randoms(use_true_random=False))
def test_repeats_and_order_of_shingles_change_no_signature(values: list[int], random: Any) -> None:
    again = values + [value for value in values if random.random() < 0.5]
    random.shuffle(again)
    offset = np.cumsum([0, len(values), len(again)])
    one, two = sketched(CpuBackend(1), Fingerprints(np.array(values + again, np.uint64), offset), Family(num_perm=16))
    np.testing.assert_array_equal(one, two)


PAIRS, EACH, SEEDS = 95, 100, 120


@pytest.fixture(scope="module")
def signed_pairs() -> tuple[NDArray[np.float64], list[gpulsh.Signatures]]:
    """The Jaccard of pairs of sets, rows 2 i and 2 i + 1, from 0.03 to 0.98; and their signatures by seed."""
    values = np.random.default_rng(2).integers(0, 2**64, (PAIRS, 2, EACH), np.uint64)
    common = 5 + np.arange(PAIRS)
    for pair, count in enumerate(common.tolist()):
        values[pair, 1, :count] = values[pair, 0, :count]
    sets = Fingerprints(values.reshape(-1), np.arange(2 * PAIRS + 1) * EACH)
    signatures = [gpulsh.MinHash(seed=seed)(sets, backend="cpu") for seed in range(SEEDS)]
    return common / (2 * EACH - common), signatures


def count_outside(counts: NDArray[Any], n: int, probability: NDArray[np.float64]) -> int:
    """The number of counts outside the interval that holds 99.9 % of a binomial one."""
    from scipy.stats import binom  # a second to import, which every worker would take

    low, high = binom.interval(0.999, n, np.clip(probability, 1e-12, 1 - 1e-12))
    return int(((counts < low) | (counts > high)).sum())


def test_the_estimate_of_jaccard_is_binomial(signed_pairs: Any) -> None:
    exact, signatures = signed_pairs
    agree = np.stack([(one.values[::2] == one.values[1::2]).sum(axis=1) for one in signatures])  # [seeds, pairs]
    assert count_outside(agree.sum(axis=0), 128 * SEEDS, exact) <= 1  # two have a probability of 0.4 %
    # The spread of one estimate is sqrt(J (1 - J) / 128), no more and no less.
    spread = np.sqrt(agree.var(axis=0) / (128 * exact * (1 - exact)))
    assert 0.97 < spread.mean() < 1.03 and spread.min() > 0.75 and spread.max() < 1.25


@pytest.mark.parametrize(("bands", "rows"), [(42, 3), (14, 9), (128, 1), (1, 5)])
def test_bands_find_pairs_as_often_as_the_s_curve_says(signed_pairs: Any, bands: int, rows: int) -> None:
    exact, signatures = signed_pairs
    caught = np.zeros(PAIRS, int)
    for one in signatures:
        digests = gpulsh.Banding(bands=bands, rows=rows)(one, backend="cpu").values
        caught += (digests[::2] == digests[1::2]).any(axis=1)
    probability = gpulsh.SCurve(bands=bands, rows=rows).probability(exact)
    assert count_outside(caught, SEEDS, probability) <= 1
    # All pairs together, where small errors that lean one way would add up.
    deviation = math.sqrt(float((SEEDS * probability * (1 - probability)).sum()))
    assert abs(float(caught.sum() - SEEDS * probability.sum())) <= 3.3 * deviation + 1


def test_seeds_draw_distinct_functions() -> None:
    batch = batch_of([b"a b c d e f g h"])
    rows = CpuBackend(1).shingle(batch, Shingling(size=1))
    drawn = {gpulsh.MinHash(num_perm=4, seed=seed)(rows, backend="cpu").values.tobytes() for seed in range(200)}
    assert len(drawn) == 200
