"""Hyperplanes: bits by hand in whole numbers, dense and sparse alike, and how often vectors differ in them."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpulsh import Hyperplanes, ParameterError
from gpulsh.permutations import words_at

NORMAL = 3.29


def coordinate(seed: int, column: int, bit: int) -> int:
    first = 2 * (384 * column + bit)
    drawn = words_at("hyperplanes", seed, np.array([first, first + 1], np.uint64))
    return sum(drawn.tobytes()) - 2040


def by_hand(rows: list[list[float]], bits: int, seed: int) -> list[list[int]]:
    """The definition in whole numbers; a quotient is rounded to float64 first, as the rule says x / max(|row|)."""
    found = []
    for row in rows:
        largest = max(map(abs, row), default=0.0) or 1.0
        whole = [round(Fraction(x / largest) * 2**15) for x in row]
        sums = [sum(w * coordinate(seed, c, bit) for c, w in enumerate(whole)) for bit in range(bits)]
        found.append([sum((sums[64 * w + i] > 0) << i for i in range(64)) for w in range(bits // 64)])
    return found


@settings(max_examples=12)
@given(
    arrays.arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(0, 5)), elements=st.floats(-9, 9)),
    st.sampled_from([64, 128]),
    st.integers(0, 2**64 - 1),
)
def test_the_definition(vectors: Any, bits: int, seed: int) -> None:
    found = Hyperplanes(bits=bits, seed=seed)(vectors, backend="cpu")
    assert found.values.tolist() == by_hand(vectors.tolist(), bits, seed) and found.dtype == np.uint64
    assert found.shape == (len(vectors), bits // 64)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8, np.int64, np.uint32, bool])
def test_types_and_sizes_of_chunks(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = (np.random.default_rng(1).normal(size=(37, 23)) * 9).astype(dtype)
    vectors[5] = 0
    wanted = Hyperplanes(bits=128)(vectors.astype(np.float64), backend="cpu").values
    assert (wanted[5] == 0).all() and (wanted[:5] != 0).all()
    for at_once, rows in ((1 << 20, 512), (128, 3), (300, 5), (128 * 7, 1)):
        monkeypatch.setattr("gpulsh.sketch.hyperplanes.AT_ONCE", at_once)
        monkeypatch.setattr("gpulsh.sketch.hyperplanes.ROWS", rows)
        for one in (vectors, np.asfortranarray(vectors), vectors[:, ::-1][:, ::-1]):
            np.testing.assert_array_equal(Hyperplanes(bits=128)(one, backend="reference").values, wanted)
    np.testing.assert_array_equal(Hyperplanes(bits=128)(vectors.tolist(), backend="cpu").values, wanted)
    np.testing.assert_array_equal(Hyperplanes(bits=64)(vectors, backend="cpu").values, wanted[:, :1])


def test_sparse_vectors_have_the_bits_of_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    generator = np.random.default_rng(2)
    vectors = generator.normal(size=(40, 300)) * (generator.random((40, 300)) < 0.05)
    vectors[7] = 0
    wanted = Hyperplanes(bits=128)(vectors, backend="cpu").values
    places = tuple(np.tile(place, 2) for place in np.nonzero(vectors))
    twice = sparse.coo_array((np.tile(vectors[vectors != 0] / 2, 2), places), vectors.shape)
    given = [kind(vectors) for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix)]
    unsummed = sparse.csr_array((np.array([1.0, 2.0, -3.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    for at_once in (1 << 20, 200, 1):
        monkeypatch.setattr("gpulsh.sketch.hyperplanes.AT_ONCE", at_once)
        for one in (*given, twice):
            np.testing.assert_array_equal(Hyperplanes(bits=128)(one, backend="cpu").values, wanted)
        found = Hyperplanes()(unsummed, backend="cpu").values
        np.testing.assert_array_equal(found, Hyperplanes()(np.array([[2.0, -2.0]]), backend="cpu").values)
    assert unsummed.nnz == 3  # the caller's is left as it was
    far = sparse.csr_array((np.ones(2), np.array([0, 2**30]), np.array([0, 1, 2])), shape=(2, 2**30 + 1))
    assert Hyperplanes()(far, backend="cpu").shape == (2, 1)
    assert Hyperplanes()(sparse.csr_array((0, 9)), backend="cpu").shape == (0, 1)
    with pytest.raises(ParameterError, match="NaN or infinity in row 1"):
        Hyperplanes()(sparse.csr_array(np.array([[1.0, 0.0], [0.0, np.nan]])), backend="cpu")
    with pytest.raises(ParameterError, match="complex128"):
        Hyperplanes()(sparse.csr_array(np.array([[1j]])), backend="cpu")


def test_length_does_not_count_and_the_opposite_has_the_other_bits() -> None:
    vectors = np.random.default_rng(3).normal(size=(20, 33))
    one, long, opposite = (Hyperplanes(bits=384)(scale * vectors, backend="cpu").values for scale in (1, 2.0**90, -1))
    assert (one == long).all() and (one == ~opposite).all()


@pytest.mark.parametrize(("width", "angle"), [(2, 0.1), (3, 0.8), (50, np.pi / 2), (50, 2.5)])
def test_the_angle_and_its_deviation(width: int, angle: float) -> None:
    generator, sketch = np.random.default_rng(width), Hyperplanes(bits=64)
    first, other = generator.normal(size=(2, 8000, width))
    first /= np.linalg.norm(first, axis=1)[:, None]
    other -= (first * other).sum(axis=1)[:, None] * first
    other /= np.linalg.norm(other, axis=1)[:, None]
    second = np.cos(angle) * first + np.sin(angle) * other
    found, p = [], angle / np.pi
    for seed, part in enumerate(np.split(np.arange(8000), 80)):  # one draw of planes for all would be one estimate
        sketch = Hyperplanes(bits=64, seed=seed)
        bits = sketch(np.concatenate([first[part], second[part]]), backend="cpu")
        pairs = np.stack([np.arange(100), np.arange(100, 200)], axis=1)
        found.append(sketch.estimate_angle(bits, pairs, backend="cpu"))
    angles = np.concatenate(found)
    means = angles.reshape(80, 100).mean(axis=1)  # of which each has planes of its own
    assert abs(means.mean() - angle) < NORMAL * means.std() / np.sqrt(80)
    assert angles.var() == pytest.approx(np.pi**2 * p * (1 - p) / 64, rel=0.1)


def test_coordinates_are_nearly_normal() -> None:
    drawn = Hyperplanes()._planes(np.arange(5000, dtype=np.uint64), 0, 64)
    assert (abs(drawn) <= 2040).all() and (drawn == drawn.astype(np.int64)).all()
    assert abs(drawn.mean()) < NORMAL * drawn.std() / np.sqrt(drawn.size)
    assert drawn.var() == pytest.approx(16 * (2**16 - 1) / 12, rel=0.02)
    assert (drawn**4).mean() / drawn.var() ** 2 == pytest.approx(3 - 1.2 / 16, abs=0.05)
    assert drawn[17, 5] == coordinate(1, 17, 5)


def test_golden_bits() -> None:
    vectors = [[1.0, -2.0, 3.5], [0.0, 0.0, 0.0], [1e-300, 1e-301, 0.0]]
    assert Hyperplanes(bits=128)(vectors, backend="cpu").values.tolist() == GOLDEN


GOLDEN = [[1654020228635394877, 9622720655758463169], [0, 0], [4248434118691199557, 13378033708694066000]]
