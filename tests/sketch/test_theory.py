"""Every set sketch estimates Jaccard similarity without bias, and errs as much as its theory says."""

from __future__ import annotations

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import Fingerprints
from gpulsh.errors import ParameterError
from gpulsh.params import MinHashFamily
from gpulsh.sketch.sets.set_sketch import SetSketch

SKETCHES: list[type[SetSketch]] = [gpulsh.MinHash, gpulsh.OnePermutation, gpulsh.FastSimilarity, gpulsh.CMinHash]
ESTIMATES = 8000  # for each case: the deviation of a variance is then 1.6 %
NORMAL = 3.29  # beyond this many deviations lies a thousandth


def sets_with(common: int, own: int, pairs: int, generator: np.random.Generator) -> Fingerprints:
    """Rows 2 i and 2 i + 1 have `common` values in common and `own` each of their own."""
    size = common + own
    values = np.empty((pairs, 2, size), np.uint64)
    values[:, :, :common] = generator.integers(0, 2**64, (pairs, 1, common), np.uint64)
    values[:, :, common:] = generator.integers(0, 2**64, (pairs, 2, own), np.uint64)
    return Fingerprints(values.reshape(-1), np.arange(2 * pairs + 1, dtype=np.int64) * size)


# Every two of a sketch, a size and a similarity meet.
CASES = [
    (kind, size, (0.2, 0.5, 0.8)[(row + column) % 3])
    for row, kind in enumerate(SKETCHES)
    for column, size in enumerate((20, 200, 2000, 20_000))
]


@pytest.mark.parametrize(("kind", "size", "similarity"), CASES)
def test_bias_and_variance(kind: type[SetSketch], size: int, similarity: float) -> None:
    common = round(size * similarity)
    own = (size - common) // 2
    union = common + 2 * own
    pairs = min(ESTIMATES, max(200_000 // size, 40))
    if kind is gpulsh.CMinHash and size == 20_000:
        size, pairs = 5000, 40  # it computes a permutation for each value; MinHash and it differ in nothing else
        common, own = round(size * similarity), (size - round(size * similarity)) // 2
        union = common + 2 * own
    rows = sets_with(common, own, pairs, np.random.default_rng(size))
    asked = np.arange(2 * pairs).reshape(-1, 2)
    sketches = [kind(num_perm=64, seed=seed) for seed in range(-(-ESTIMATES // pairs))]
    found = np.concatenate([sketch.estimate(sketch(rows, backend="cpu"), asked, backend="cpu") for sketch in sketches])

    exact = common / union
    deviation = sketches[0].standard_deviation(exact, size=union)
    assert abs(found.mean() - exact) < NORMAL * found.std() / np.sqrt(len(found))
    assert found.var() == pytest.approx(deviation**2, rel=0.1)


@pytest.mark.parametrize("family", ["affine61", "multiply_shift", "tabulation"])
@pytest.mark.parametrize("size", [20, 200, 2000])
def test_families_of_minhash(family: MinHashFamily, size: int) -> None:
    """`xor` is the exception, in test_literature.py."""
    rows = sets_with(size // 2, size // 4, max(200_000 // size, 40), np.random.default_rng(size))
    asked = np.arange(len(rows)).reshape(-1, 2)
    sketches = [gpulsh.MinHash(num_perm=64, seed=seed, family=family) for seed in range(-(-ESTIMATES // len(asked)))]
    found = np.concatenate([sketch.estimate(sketch(rows, backend="cpu"), asked, backend="cpu") for sketch in sketches])
    exact = (size // 2) / (size // 2 + 2 * (size // 4))
    assert abs(found.mean() - exact) < NORMAL * found.std() / np.sqrt(len(found))
    assert found.std() == pytest.approx(sketches[0].standard_deviation(exact), rel=0.05)


@pytest.mark.parametrize("kind", SKETCHES)
def test_what_theory_says(kind: type[SetSketch]) -> None:
    sketch = kind(num_perm=200)
    assert sketch.standard_deviation(0.5) == pytest.approx(0.0354, abs=5e-5)
    assert sketch.standard_deviation(0.5, size=10**7) == pytest.approx(sketch.standard_deviation(0.5), rel=1e-3)
    assert sketch.standard_deviation(0) == sketch.standard_deviation(1, size=50) == 0
    wrong_sizes = ({"value": 0.5, "size": size} for size in (0, 1.5, "many"))
    for wrong in ({"value": 1.5}, {"value": "half"}, {"value": [0.1, 0.2]}, *wrong_sizes):
        with pytest.raises(ParameterError, match="give "):
            sketch.standard_deviation(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", SKETCHES)
def test_real_texts(kind: type[SetSketch]) -> None:
    """Words as people write them, not random numbers: bias and deviation over many seeds."""
    from tests.support.texts import licences

    texts = [text for text in licences() if len(text.split()) > 300][:12]
    fingerprints = gpulsh.shingle(texts, shingling=gpulsh.Shingling(size=1), backend="cpu")
    pairs = np.array([(i, j) for i in range(len(texts)) for j in range(i)])
    exact = gpulsh.jaccard(fingerprints, pairs, backend="cpu")
    sketches = [kind(num_perm=64, seed=seed) for seed in range(300)]
    found = np.array(
        [sketch.estimate(sketch(fingerprints, backend="cpu"), pairs, backend="cpu") for sketch in sketches]
    )
    errors = (found.mean(axis=0) - exact) / (found.std(axis=0) / np.sqrt(len(sketches)) + 1e-9)
    assert abs(errors).max() < 5  # of some dozens
    expected = np.array([sketches[0].standard_deviation(float(value)) for value in exact])
    assert (found.std(axis=0) / expected).mean() == pytest.approx(1, abs=0.1)
