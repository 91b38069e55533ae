"""Every set sketch estimates Jaccard similarity without bias, and errs as much as its theory says."""

import os
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from math import comb
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

import gpulsh
from gpulsh.arrays import Fingerprints
from gpulsh.backends.hashing import mix64
from gpulsh.params import MinHashFamily
from gpulsh.sketch.base import SetSketch
from gpulsh.theory import epsilon_of_chance
from tests.support.rows import NORMAL

SKETCHES: list[type[SetSketch]] = [gpulsh.MinHash, gpulsh.OnePermutation, gpulsh.FastSimilarity, gpulsh.CMinHash]
# For each case: the deviation of a variance is then 2.2 %, and 1.6 % in ./ci/soak.
SOAK = "GPULSH_EVERY_CUT" in os.environ
ESTIMATES = 8000 if SOAK else 4000


def sets_with(common: int, own: int, pairs: int, generator: np.random.Generator) -> Fingerprints:
    """Rows 2 i and 2 i + 1 share `common` values, and each has `own` values of its own."""
    size = common + own
    values = np.empty((pairs, 2, size), np.uint64)
    values[:, :, :common] = generator.integers(0, 2**64, (pairs, 1, common), np.uint64)
    values[:, :, common:] = generator.integers(0, 2**64, (pairs, 2, own), np.uint64)
    return Fingerprints(values.reshape(-1), np.arange(2 * pairs + 1, dtype=np.int64) * size)


def small_sets(common: int, own: tuple[int, int], pairs: int) -> Fingerprints:
    """Rows 2 i and 2 i + 1 share `common` values; `own` gives the number of each one's own values."""
    generator = np.random.default_rng(100 * common + sum(own))
    sizes = np.tile([common + count for count in own], pairs)
    offset = np.concatenate([[0], sizes.cumsum()])
    values = generator.integers(0, 2**64, offset[-1], np.uint64)
    for first, second in zip(offset[:-1:2], offset[1:-1:2], strict=True):
        values[second : second + common] = values[first : first + common]
    return Fingerprints(values, offset.astype(np.int64))


def assert_theory(sketch: Any, estimates: NDArray[np.float64], similarity: float, union: int, rel: float = 0.1) -> None:
    """Check that `estimates` have the mean and the deviation of the theory."""
    deviation = sketch.standard_deviation(similarity, size=union)
    assert abs(estimates.mean() - similarity) <= NORMAL * deviation / np.sqrt(len(estimates)) + 1e-12
    assert estimates.std() == pytest.approx(deviation, rel=rel, abs=1e-12)


Estimates = Callable[[Fingerprints, NDArray[np.int64], int], NDArray[np.float64]]


def of_sketch(make: Callable[[int], Any]) -> Estimates:
    """The estimates for pairs of rows by the sketch of a seed."""

    def estimates(rows: Fingerprints, asked: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        sketch = make(seed)
        found = sketch.estimate(sketch(rows, backend="cpu"), asked, backend="cpu")
        return found[~np.isnan(found)]

    return estimates


def of_bits(packing: gpulsh.BBit, make: Callable[[int], Any]) -> Estimates:
    def estimates(rows: Fingerprints, asked: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        packed = packing(make(seed)(rows, backend="cpu"), backend="cpu")
        return packing.estimate(packed, asked, backend="cpu")

    return estimates


def of_weights(rows: Fingerprints, asked: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """The estimates by weighted signatures with weights of 1."""
    row = np.repeat(np.arange(len(rows)), rows.lengths)
    values = rows.values[np.lexsort((rows.values, row))]
    ordered = gpulsh.WeightedFingerprints(values, np.ones(len(values)), rows.offset)
    sketch = gpulsh.WeightedMinHash(num_perm=64, seed=seed)
    return sketch.estimate(sketch(ordered, backend="cpu"), asked, backend="cpu")


SMALL: dict[str, tuple[Any, Estimates]] = {}
for _family in get_args(MinHashFamily):
    if _family != "xor":  # whose masks, as few as bits, are shared by all pairs
        _make = partial(gpulsh.MinHash, num_perm=64, family=_family)
        SMALL[_family] = _make(), of_sketch(lambda seed, make=_make: make(seed=seed))  # type: ignore[misc]
for _kind in SKETCHES[1:]:
    SMALL[_kind.__name__] = _kind(num_perm=64), of_sketch(lambda seed, kind=_kind: kind(num_perm=64, seed=seed))  # type: ignore[misc]
for _bits in (1, 4):
    _packing = gpulsh.BBit(bits=_bits, num_perm=64)
    SMALL[f"BBit {_bits}"] = _packing, of_bits(_packing, lambda seed: gpulsh.MinHash(num_perm=64, seed=seed))
SMALL["WeightedMinHash"] = gpulsh.WeightedMinHash(num_perm=64), of_weights
SMALL["BottomS"] = gpulsh.BottomS(size=8), of_sketch(lambda seed: gpulsh.BottomS(size=8, seed=seed))
SMALL["ModM"] = gpulsh.ModM(modulus=3), of_sketch(lambda seed: gpulsh.ModM(modulus=3, seed=seed))
UNIONS = [(1, (0, 0)), (0, (1, 1)), (1, (1, 0)), (1, (1, 1)), (2, (0, 1)), (2, (2, 1)), (3, (2, 5)), (10, (0, 10))]


@pytest.mark.parametrize("name", SMALL)
def test_estimates_of_small_unions_follow_theory(name: str) -> None:
    sketch, estimates = SMALL[name]
    for common, own in UNIONS:
        rows, asked, union = small_sets(common, own, 1000), np.arange(2000).reshape(-1, 2), common + sum(own)
        assert_theory(sketch, np.concatenate([estimates(rows, asked, seed) for seed in (1, 2)]), common / union, union)


@pytest.mark.parametrize(("common", "own"), [(0, (1, 1)), (1, (1, 0)), (3, (2, 5)), (100, (50, 50))], ids=str)
def test_estimates_by_xor_masks_follow_theory(common: int, own: tuple[int, int]) -> None:
    """All pairs of a seed share the masks, so there are many seeds."""
    rows, asked, union = small_sets(common, own, 50), np.arange(100).reshape(-1, 2), common + sum(own)
    estimates = of_sketch(lambda seed: gpulsh.MinHash(num_perm=64, family="xor", seed=seed))
    others = (Fingerprints(mix64(rows.values + np.uint64(seed)), rows.offset) for seed in range(200))
    found = np.concatenate([estimates(other, asked, seed) for seed, other in enumerate(others)])
    assert_theory(gpulsh.MinHash(num_perm=64, family="xor"), found, common / union, union)


@pytest.mark.parametrize(("bins", "union"), [(1, 5), (3, 2), (64, 2), (64, 3), (7, 20)])
def test_the_deviation_of_one_permutation_equals_a_sum(bins: int, union: int) -> None:
    """The sum is over filled bins, whose values are hypergeometric, and the rest binomial."""
    chances = np.zeros(bins + 2)
    chances[0] = 1.0
    for _ in range(union):
        filled = np.arange(bins + 2)
        chances = chances * filled / bins + np.concatenate([[0], (chances * (bins - filled) / bins)[:-1]])
    common, variance = union // 2, 0.0
    similarity = common / union
    for filled in range(1, min(bins, union) + 1):
        for held in range(filled + 1):
            share = held / filled
            drawn = comb(common, held) * comb(union - common, filled - held) / comb(union, filled)
            rest = bins - filled
            second = ((held + rest * share) / bins) ** 2 + rest * share * (1 - share) / bins**2
            variance += chances[filled] * drawn * (second - similarity**2)
    found = gpulsh.OnePermutation(num_perm=bins).standard_deviation(similarity, size=union)
    assert found == pytest.approx(np.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize("kind", [gpulsh.OnePermutation, gpulsh.FastSimilarity], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("bits", [1, 4])
def test_b_bit_estimates_of_other_sketches_follow_theory(kind: type[SetSketch], bits: int) -> None:
    """Documents of one shingle each differ, even where one value fills a signature."""
    packing = gpulsh.BBit(bits=bits, num_perm=64)
    estimates = of_bits(packing, lambda seed: kind(num_perm=64, seed=seed))
    rows, asked = small_sets(0, (1, 1), 4000), np.arange(8000).reshape(-1, 2)
    assert_theory(packing, estimates(rows, asked, 1), 0, 2)


# Sizes below the length of the signature, above it and, in ./ci/soak, far above it. C-MinHash computes a permutation
# for each value.
SIZES = (40, 2000, 20_000)
LARGE = {kind.__name__ for kind in SKETCHES} | {"affine32"}
CASES = [
    (name, 5000 if name == "CMinHash" and size == SIZES[-1] else size, (0.2, 0.5, 0.8)[(row + column) % 3])
    for row, name in enumerate(SMALL)
    for column, size in enumerate(SIZES)
    if (size < SIZES[-1] or (SOAK and name in LARGE)) and name != "WeightedMinHash"  # whose own tests have more
]


@pytest.mark.parametrize(("name", "size", "similarity"), CASES)
def test_estimates_of_large_sets_follow_theory(name: str, size: int, similarity: float) -> None:
    sketch, estimates = SMALL[name]
    common = round(size * similarity)
    own = (size - common) // 2
    pairs = min(ESTIMATES, max(200_000 // size, 40))
    rows, asked = sets_with(common, own, pairs, np.random.default_rng(size)), np.arange(2 * pairs).reshape(-1, 2)
    found = np.concatenate([estimates(rows, asked, seed) for seed in range(1, 1 - ESTIMATES // -pairs)])
    assert_theory(sketch, found, common / (common + 2 * own), common + 2 * own, 0.05 if len(found) >= 4000 else 0.1)


@pytest.mark.parametrize("kind", SKETCHES)
def test_standard_deviations_of_known_similarities_follow_theory(kind: type[SetSketch]) -> None:
    sketch = kind(num_perm=200)
    assert sketch.standard_deviation(0.5) == pytest.approx(0.0354, abs=5e-5)
    assert sketch.standard_deviation(0.5, size=10**7) == pytest.approx(sketch.standard_deviation(0.5), rel=1e-3)
    assert sketch.standard_deviation(0) == sketch.standard_deviation(1, size=50) == 0


@pytest.mark.parametrize("kind", SKETCHES)
def test_estimates_of_real_texts_follow_theory(kind: type[SetSketch]) -> None:
    """Real words, not random numbers: bias and deviation over many seeds."""
    from tests.support.texts import licences

    texts = [text for text in licences() if len(text.split()) > 300][:12]
    fingerprints = gpulsh.shingle(texts, shingling=gpulsh.Shingling(size=1), backend="cpu")
    pairs = np.array([(i, j) for i in range(len(texts)) for j in range(i)])
    exact = gpulsh.jaccard(fingerprints, pairs, backend="cpu")
    sketches = [kind(num_perm=64, seed=seed) for seed in range(80)]
    signed = [sketch(fingerprints, backend="cpu") for sketch in sketches]
    found = np.array([one.estimate(of, pairs, backend="cpu") for one, of in zip(sketches, signed, strict=True)])
    errors = (found.mean(axis=0) - exact) / (found.std(axis=0) / np.sqrt(len(sketches)) + 1e-9)
    assert abs(errors).max() < 5  # of some dozens
    expected = np.array([sketches[0].standard_deviation(float(value)) for value in exact])
    assert (found.std(axis=0) / expected).mean() == pytest.approx(1, abs=0.1)


def test_a_document_of_one_shingle_takes_no_probes() -> None:
    """It took a probe for each pair of bins, 2^32 of them."""
    rows = Fingerprints(np.full(3, 0x9E3779B97F4A7C15, np.uint64), np.array([0, 1, 3]))
    began = time.process_time()
    signatures = gpulsh.OnePermutation(num_perm=65_536)(rows, backend="cpu").values
    assert time.process_time() - began < 5
    assert (signatures == signatures[0, 0]).all()


# --- worked examples of the literature, each with its source


def test_minima_equal_an_example_of_the_textbook() -> None:
    """Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.3: the rows A to G, and a trace by rows."""
    sets, orders = (("ABFG"), ("CDE"), ("AFG"), ("BCDE")), ("ACGFBED", "DBACFGE", "CDGFABE")
    places = np.array([[order.index(row) + 1 for order in orders] for row in "ABCDEFG"])
    numbers = [["ABCDEFG".index(row) for row in one] for one in sets]
    signatures = gpulsh.minima(numbers, places, backend="cpu")
    assert signatures.values.T.tolist() == [[1, 2, 1, 2], [2, 1, 3, 1], [3, 1, 3, 1]]
    pairs = np.array(list(combinations(range(4), 2)))
    assert gpulsh.jaccard(signatures, pairs, backend="cpu") == pytest.approx([0, 2 / 3, 0, 0, 1, 0])
    rows = gpulsh.fingerprint(numbers, backend="cpu")
    assert gpulsh.jaccard(rows, pairs, backend="cpu").tolist() == [0, 3 / 4, 1 / 7, 0, 3 / 4, 0]

    # h(x) = x + 1 mod 5 and g(x) = 2 x + 3 mod 5, row after row: each step of the trace.
    infinity, x = 2**32 - 1, np.arange(5)
    functions = np.stack([(x + 1) % 5, (2 * x + 3) % 5], axis=1)
    trace = []
    for read in range(1, 6):
        some = [[row for row in one if row < read] for one in ((0, 2, 3), (1, 2, 4))]
        trace.append(gpulsh.minima(some, functions, backend="cpu").values.tolist())
    last = [[1, 2], [2, 0]]
    assert trace == [[[1, 3], [infinity, infinity]], [[1, 3], [2, 0]], last, last, [[1, 2], [0, 0]]]


def test_epsilon_of_a_family_is_that_of_chance() -> None:
    """Broder, Charikar, Frieze, Mitzenmacher 2000, section 1."""
    rows = gpulsh.fingerprint([range(300), range(5), [], [7]], backend="cpu")
    found = gpulsh.MinHash(num_perm=20_000).epsilon(rows, backend="cpu")
    assert 0 < found[0] < epsilon_of_chance(300, 20_000) and found[2:].tolist() == [0, 0]


def test_epsilon_of_xor_masks_follows_the_trie_of_the_set() -> None:
    """Each of 0, 1, 2, 9 and 200 is the minimum as often as its branchings say, 200 of half of all masks, not a fifth.

    Broder, Charikar, Frieze, Mitzenmacher 2000 ask for more of a family.
    """
    values = np.array([0, 1, 2, 9, 200], np.uint64) << np.uint64(32)
    sketch, rows = gpulsh.MinHash(num_perm=20_000, family="xor"), Fingerprints(np.tile(values, 2), np.array([0, 5, 10]))
    assert sketch.epsilon(rows, backend="cpu")[0] == pytest.approx(5 / 2 - 1, abs=0.1)
    top = Fingerprints(np.array([1 << 63], np.uint64), np.array([0, 1]))
    masks = sketch(top, backend="cpu")[0] ^ np.uint32(1 << 31)
    winner = sketch(rows, backend="cpu")[0] ^ masks
    for value, branchings in ((0, 4), (1, 4), (2, 3), (9, 2), (200, 1)):
        share = float((winner == value).mean())
        assert share == pytest.approx(2.0**-branchings, abs=4 * np.sqrt(0.25 / 20_000))
