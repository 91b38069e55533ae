"""SimHash: bits by hand, on every backend, from text as from fingerprints, and the number of differing bits."""

from collections import Counter
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh import BitSignatures, Fingerprints, Shingling, SimHash
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.reference.hashing import mix64
from gpulsh.permutations import words_at
from gpulsh.sketch.bits import popcount
from tests.kernels.device_arrays import DeviceArray
from tests.sketch.test_theory import sets_with
from tests.support.rows import NORMAL, same, table

REFERENCE, ONE = ReferenceBackend(), CpuBackend(1)
KEYS = np.array([0, 2**64 - 1, 0x9E3779B97F4A7C15], np.uint64)
WEIGHTS = ("set", "count", "idf")
rows_of_hashes = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=40), max_size=8)


def naive_simhash(rows: list[list[int]], bits: int, weights: str, seed: int) -> list[list[int]]:
    keys = words_at("simhash", seed, np.arange(bits // 64, dtype=np.uint64)).tolist()
    documents = Counter(x for row in rows for x in set(row))

    def log(number: int) -> int:
        exponent = number.bit_length() - 1
        y, found = number << (31 - exponent), exponent
        for _ in range(16):
            y = y * y >> 31
            found = 2 * found + (y >> 32)
            y >>= y >> 32
        return found

    def word(row: list[int], key: int) -> int:
        weight = {
            "set": dict.fromkeys(row, 1),
            "count": Counter(row),
            "idf": {x: count * (log(len(rows) + 1) - log(documents[x])) for x, count in Counter(row).items()},
        }[weights]
        hashes = [(mix64(x ^ key), w) for x, w in weight.items()]
        sums = [sum(w if hashed >> place & 1 else -w for hashed, w in hashes) for place in range(64)]
        return sum((total > 0) << place for place, total in enumerate(sums))

    return [[word(row, key) for key in keys] for row in rows]


@given(
    weights=st.sampled_from(WEIGHTS),
    backend=st.sampled_from(["reference", "cpu", "cpu"]),
    rows=rows_of_hashes,
    bits=st.sampled_from([64, 128, 384]),
    seed=st.integers(0, 2**64 - 1),
)
def test_simhash_is_as_defined(weights: Any, backend: Any, rows: list[list[int]], bits: int, seed: int) -> None:
    found = SimHash(bits=bits, weights=weights, seed=seed)(table(rows, 2), backend=backend)
    assert found.shape == (len(rows), bits // 64) and found.dtype == np.uint64
    assert found.values.tolist() == naive_simhash(rows, bits, weights, seed)


@pytest.mark.parametrize("values", [np.arange(3000) % 1500, np.zeros(40), np.full(900, 2.0**63)])
def test_unmixed_values_are_counted_correctly(values: Any) -> None:
    """Rows whose values share a cell take no endless search, and come out right."""
    from gpulsh.backends.cpu.simhash import _rows

    given = values.astype(np.uint64)
    rows, found = Fingerprints(given, np.array([0, 1, len(given) - 1, len(given)])), np.empty((3, 3), np.uint64)
    _rows(rows, KEYS, True, found)
    same(found, REFERENCE.simhash(REFERENCE.unique(rows), KEYS))


def test_simhash_bits_are_pinned() -> None:
    texts = ["a a a rose is red", "the quick brown fox is a dog", ""]
    assert [
        SimHash(weights=weights).from_texts(texts, shingling=Shingling(size=1), backend="cpu").values[:, 0].tolist()
        for weights in WEIGHTS
    ] == GOLDEN


GOLDEN = [
    [960115686716343312, 10190137922235798871, 0],
    [17958073145956107541, 10190137922235798871, 0],
    [9040805146274170128, 9540911348672238935, 0],
]


@pytest.mark.parametrize(("cosine", "size"), [(0.0, 401), (0.9, 401), (0.75, 4001)])
def test_the_angle_is_unbiased_and_deviates_as_in_theory(cosine: float, size: int) -> None:
    """The mean cosine is below the true one, as in theory; so is the deviation."""
    pairs = 1_000_000 // size
    sketches = [SimHash(bits=64, seed=seed) for seed in range(-(-8000 // pairs))]
    common, asked = round(cosine * size), np.arange(2 * pairs).reshape(-1, 2)
    rows, exact = sets_with(common, size - common, pairs, np.random.default_rng(size)), common / size
    assert gpulsh.cosine(rows, asked[:3], backend="cpu").tolist() == [exact] * 3
    signed = [sketch(rows, backend="cpu") for sketch in sketches]
    angles = np.concatenate([s.estimate_angle(b, asked, backend="cpu") for s, b in zip(sketches, signed, strict=True)])
    found = np.concatenate([s.estimate(b, asked, backend="cpu") for s, b in zip(sketches, signed, strict=True)])
    p = np.arccos(exact) / np.pi
    assert abs(angles.mean() - np.pi * p) < NORMAL * angles.std() / np.sqrt(len(angles))
    assert angles.var() == pytest.approx(np.pi**2 * p * (1 - p) / 64, rel=0.1)
    assert found.std() == pytest.approx(sketches[0].standard_deviation(exact), rel=0.06)
    mean = ((1 - p + p * np.exp(1j * np.pi / 64)) ** 64).real
    assert abs(found.mean() - mean) < NORMAL * found.std() / np.sqrt(len(found))


def test_standard_deviations_of_known_cosines_follow_theory() -> None:
    sketch = SimHash(bits=128)
    assert sketch.standard_deviation(1) == 0 and sketch.standard_deviation(-1) == pytest.approx(0, abs=1e-9)
    assert sketch.standard_deviation(0) == pytest.approx(np.pi * 0.5 / np.sqrt(128), rel=0.02)
    assert sketch.standard_deviation(0.5, size=10) == sketch.standard_deviation(0.5)


# --- distances of bit signatures, and the exact cosine of sets, against Python's integers and sets

words = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])


@given(
    backend=st.sampled_from(["reference", "cpu"]),
    rows=st.lists(st.tuples(words, words), min_size=1, max_size=6),
    data=st.data(),
)
def test_hamming_counts_different_bits(backend: Any, rows: list[tuple[int, int]], data: Any) -> None:
    places = st.integers(0, len(rows) - 1)
    pairs = data.draw(st.lists(st.tuples(places, places), max_size=9))
    found = gpulsh.hamming(BitSignatures(np.array(rows, np.uint64)), pairs, backend=backend)
    wanted = [sum((a ^ b).bit_count() for a, b in zip(rows[i], rows[j], strict=True)) for i, j in pairs]
    assert found.tolist() == wanted and found.dtype == np.int64


@given(st.lists(words, max_size=9))
def test_ones_counts_bits_of_device_arrays(values: list[int]) -> None:
    array = np.array(values, np.uint64)
    assert popcount(DeviceArray(array)).get().tolist() == popcount(array).tolist() == [v.bit_count() for v in values]


@given(
    backend=st.sampled_from(["reference", "cpu"]),
    rows=st.lists(st.lists(st.integers(0, 9).map(lambda x: x << 60), max_size=12), min_size=2, max_size=5),
)
def test_cosine_equals_that_of_sets(backend: Any, rows: list[list[int]]) -> None:
    pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows))]
    sets = [set(row) for row in rows]
    wanted = [len(sets[i] & sets[j]) / sqrt(max(len(sets[i]) * len(sets[j]), 1)) for i, j in pairs]
    found = gpulsh.cosine(table(rows, 1), pairs, backend=backend)
    assert found.tolist() == wanted and found.dtype == np.float64
    assert all(found[i * len(rows) + i] == (1 if row else 0) for i, row in enumerate(rows))
