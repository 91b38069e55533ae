"""Weighted fingerprints of texts: counts and rarity against dictionaries, and what the array class refuses."""

from collections import Counter
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh import Shingling, WeightedFingerprints
from gpulsh.errors import ParameterError

WORDS = Shingling(size=1)
TEXTS = ["to be or not to be", "be", None, "", "to to to", "or be"]


def as_dictionaries(rows: WeightedFingerprints) -> list[dict[int, float]]:
    cuts = zip(rows.offset[:-1].tolist(), rows.offset[1:].tolist(), strict=True)
    return [dict(zip(rows.values[i:j].tolist(), rows.weight[i:j].tolist(), strict=True)) for i, j in cuts]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("shingling", [WORDS, Shingling(unit="char", size=2)])
def test_counts_and_rarity(backend: Any, shingling: Shingling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.text.documents.BATCH_BYTES", 10)
    fingerprints = gpulsh.shingle(TEXTS, shingling=shingling, backend=backend)
    cuts = zip(fingerprints.offset[:-1], fingerprints.offset[1:], strict=True)
    counts = [Counter(fingerprints.values[i:j].tolist()) for i, j in cuts]
    assert as_dictionaries(gpulsh.weigh(TEXTS, shingling=shingling, backend=backend)) == counts

    having = Counter(x for count in counts for x in count)
    wanted = [{x: count[x] * log((len(TEXTS) + 1) / having[x]) for x in count} for count in counts]
    assert as_dictionaries(gpulsh.weigh(TEXTS, "idf", shingling=shingling, backend=backend)) == wanted


def test_what_every_document_has_weighs_least() -> None:
    rows = gpulsh.weigh(["the cat", "the dog", "the the"], "idf", shingling=WORDS, backend="cpu")
    assert rows.offset.tolist() == [0, 2, 4, 5]
    assert sorted(rows.weight.tolist()) == sorted([log(4), log(4), log(4 / 3), log(4 / 3), 2 * log(4 / 3)])
    assert len(gpulsh.weigh([], "idf", backend="cpu")) == len(gpulsh.weigh([], backend="cpu")) == 0


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=8).map(" ".join), min_size=2, max_size=5))
def test_jaccard_of_counts_is_that_of_labelled_shingles(texts: list[str]) -> None:
    rows = gpulsh.weigh(texts, shingling=WORDS, backend="cpu")
    labelled = [
        {(x, number) for x, count in row.items() for number in range(int(count))} for row in as_dictionaries(rows)
    ]
    pairs = [(i, j) for i in range(len(texts)) for j in range(len(texts))]
    wanted = [len(labelled[i] & labelled[j]) / max(len(labelled[i] | labelled[j]), 1) for i, j in pairs]
    for backend in ("reference", "cpu"):
        assert gpulsh.jaccard(rows, pairs, backend=backend).tolist() == wanted  # type: ignore[arg-type]


def test_sums_run_in_the_order_of_fingerprints() -> None:
    generator = np.random.default_rng(1)
    values = np.sort(generator.choice(300, (2, 200)), axis=1)
    sets = [np.unique(row).astype(np.uint64) for row in values]
    weights = [generator.random(len(row)) * 10.0 ** generator.integers(-9, 9, len(row)) for row in sets]
    offset = np.cumsum([0, *map(len, sets)])
    rows = WeightedFingerprints(np.concatenate(sets), np.concatenate(weights), offset)
    low = high = 0.0
    one, other = as_dictionaries(rows)
    for x in range(300):
        low += min(one.get(x, 0.0), other.get(x, 0.0))
        high += max(one.get(x, 0.0), other.get(x, 0.0))
    assert gpulsh.jaccard(rows, [[0, 1], [1, 0]], backend="cpu").tolist() == [low / high] * 2


def test_jaccard_of_nothing() -> None:
    rows = WeightedFingerprints(np.array([7], np.uint64), np.array([0.5]), np.array([0, 1, 1, 1]))
    assert gpulsh.jaccard(rows, [[0, 0], [0, 1], [1, 2]], backend="cpu").tolist() == [1, 0, 0]


@pytest.mark.parametrize("weights", ["count", "idf"])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_cosine_of_weights(backend: Any, weights: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.lsh.similarity.AT_ONCE", 5)
    rows = gpulsh.weigh(TEXTS, weights, shingling=WORDS, backend=backend)
    sets = as_dictionaries(rows)
    pairs = [(i, j) for i in range(len(TEXTS)) for j in range(len(TEXTS))]
    lengths = [sqrt(sum(w * w for w in one.values())) for one in sets]
    wanted = [
        sum(w * sets[j].get(x, 0.0) for x, w in sets[i].items()) / ((lengths[i] * lengths[j]) or 1.0) for i, j in pairs
    ]
    found = gpulsh.cosine(rows, pairs, backend=backend)  # type: ignore[arg-type]
    assert found.dtype == np.float64 and found == pytest.approx(wanted, rel=1e-12)
    assert (np.diag(found.reshape(len(TEXTS), -1)) == [1, 1, 0, 0, 1, 1]).all()


def test_the_cosine_of_weights_far_apart() -> None:
    weight, values = np.array([1e-300, 2e-300, 1e300, 2e300, 1e300]), np.array([1, 2, 1, 2, 3], np.uint64)
    rows = WeightedFingerprints(values, weight, np.array([0, 2, 4, 5]))
    assert gpulsh.cosine(rows, [[0, 1], [0, 2]], backend="cpu").tolist() == [1, 0]
    none = gpulsh.weigh([], backend="cpu")
    assert gpulsh.cosine(none, np.empty((0, 2), np.int64), backend="cpu").shape == (0,)


@pytest.mark.parametrize("weights", ["count", "idf"])
def test_simhash_estimates_the_cosine_of_the_same_weights(weights: Any) -> None:
    """Each text has once many words that others have, too, and six times some that few others have."""
    generator, texts = np.random.default_rng(2), []
    for _ in range(8):
        once, often = generator.choice(200, 150, replace=False), generator.choice(200, 40, replace=False)
        texts.append(" ".join([*(f"once{n}" for n in once), *(f"often{n}" for n in np.repeat(often, 6))]))
    options: dict[str, Any] = {"shingling": WORDS, "backend": "cpu"}
    pairs = np.array([(i, j) for i in range(8) for j in range(i)])
    exact = gpulsh.cosine(gpulsh.weigh(texts, weights, **options), pairs, backend="cpu")
    of_sets = gpulsh.cosine(gpulsh.shingle(texts, **options), pairs, backend="cpu")
    estimates = []
    for seed in range(30):
        sketch = gpulsh.SimHash(bits=384, weights=weights, seed=seed)
        estimates.append(sketch.estimate(sketch.from_texts(texts, **options), pairs, backend="cpu"))
    assert abs(np.mean(estimates, axis=0) - exact).max() < 0.05 < 2 * 0.05 < abs(of_sets - exact).min()


def test_what_the_rows_take() -> None:
    values, weight = np.array([9, 3, 3, 5, 1], np.uint64), np.array([0, 1.0, 1, 2, 0])
    rows = WeightedFingerprints(values, weight, np.array([1, 2, 2, 4]))
    assert len(rows) == 3  # the ends of rows may descend, and what is in no row is not looked at
    with pytest.raises(ParameterError, match=r"weight is int64"):
        WeightedFingerprints(np.array([1], np.uint64), np.array([1]), np.array([0, 1]))
