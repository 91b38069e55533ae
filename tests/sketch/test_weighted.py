"""Sketches of weighted sets and vectors: bias, variance, laws, accepted and refused arguments."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from tests.support.rows import NORMAL, SCALES, weighted_of

KINDS = [gpulsh.WeightedMinHash, gpulsh.KleinbergTardos]
VALUES = 65536  # the longest signature, which holds 1024 of 64 values
CPU: dict[str, Any] = {"backend": "cpu"}


def similar_rows(columns: int, scale: str, share: float) -> np.ndarray:
    """Two vectors, float64 [2, columns]: about `share` of the numbers are equal, and some are 0."""
    generator = np.random.default_rng(columns)
    rows = SCALES[scale](generator, 2 * columns).reshape(2, columns)
    rows[1] = np.where(generator.random(columns) < share, rows[0], rows[1])
    rows *= generator.random(rows.shape) < 0.9
    return np.asarray(rows + [[0.5], [0.25]] * (rows.sum(axis=1, keepdims=True) == 0))


def similarity(rows: np.ndarray) -> float:
    return float(np.minimum(*rows).sum() / np.maximum(*rows).sum())


def agreements(kind: Any, rows: np.ndarray, seeds: range) -> np.ndarray:
    """Whether two rows have equal values, bool [seeds * VALUES]; values are independent."""
    signatures = [kind(num_perm=VALUES, seed=seed)(rows, **CPU) for seed in seeds]
    return np.concatenate([one == other for one, other in signatures])


# Every two of a scale, a number of columns and a share meet.
ALIKE = [
    (scale, columns, (0.1, 0.5, 0.9)[(row + column) % 3])
    for row, scale in enumerate(("counts", "uniform", "skewed"))
    for column, columns in enumerate((3, 40, 4000))
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scale", "columns", "share"), ALIKE)
def test_weighted_estimates_follow_theory(kind: Any, scale: str, columns: int, share: float) -> None:
    if kind is gpulsh.KleinbergTardos and columns > 40:
        pytest.skip("its draws grow with the columns")
    rows = similar_rows(columns, scale, share)
    exact, found = similarity(rows), agreements(kind, rows, range(3)).reshape(-1, 64).mean(axis=1)
    if exact == 1:
        assert (found == 1).all()
        return
    deviation = kind(num_perm=64).standard_deviation(exact)
    assert abs(found.mean() - exact) < NORMAL * deviation / np.sqrt(len(found))
    assert found.var() == pytest.approx(deviation**2, rel=0.1)


@pytest.mark.parametrize("factor", [2.0**-900, 3.7, 2.0**900])
@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_does_not_matter(kind: Any, factor: float) -> None:
    rows = similar_rows(10, "uniform", 0.5)
    exact, found = similarity(rows), agreements(kind, rows * factor, range(2))
    assert abs(found.mean() - exact) < NORMAL * np.sqrt(exact * (1 - exact) / len(found))


def test_very_different_weights_are_compared() -> None:
    """A set has a thousandth of another's weights; and one element outweighs all others."""
    small, large = dict.fromkeys(range(10), 1.0), dict.fromkeys(range(10), 1000.0)
    heavy = {**small, 99: 990.0}
    rows = weighted_of([small, large, heavy])
    exact = gpulsh.jaccard(rows, [[0, 1], [0, 2], [1, 2]], **CPU)
    np.testing.assert_allclose(exact, [0.001, 0.01, 10 / 10990])
    sketch = gpulsh.WeightedMinHash(num_perm=65536)
    found = sketch.estimate(sketch(rows, **CPU), [[0, 1], [0, 2], [1, 2]], **CPU)
    assert (abs(found - exact) < [NORMAL * sketch.standard_deviation(float(value)) for value in exact]).all()


weight = st.integers(1, 40).map(lambda x: x / 8)
sets = st.dictionaries(st.integers(0, 12), weight, min_size=1, max_size=8)


@given(sets, sets, st.integers(0, 2**32))
def test_a_union_takes_its_values_from_either_set(one: dict[int, float], other: dict[int, float], seed: int) -> None:
    both = {x: max(one.get(x, 0.0), other.get(x, 0.0)) for x in one.keys() | other.keys()}
    first, second, union = gpulsh.WeightedMinHash(num_perm=32, seed=seed)(weighted_of([one, other, both]), **CPU)
    assert ((union == first) | (union == second)).all()
    assert (union == first)[first == second].all()


@given(sets, st.integers(0, 2**32))
def test_a_signature_depends_on_its_row_alone(one: dict[int, float], seed: int) -> None:
    sketch = gpulsh.WeightedMinHash(num_perm=16, seed=seed)
    alone = sketch(weighted_of([one]), **CPU)[0]
    assert (sketch(weighted_of([{5: 1e9}, one, {}, one], 3), **CPU)[[1, 3]] == alone).all()
    vector = np.zeros(13)
    vector[list(one)] = list(one.values())
    assert (sketch([vector], **CPU)[0] == alone).all()


VECTORS = np.random.default_rng(1).random((37, 23)) * (np.random.default_rng(2).random((37, 23)) < 0.5)
VECTORS[2] = 0


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_have_signatures_of_32_bits(kind: Any) -> None:
    sketch = kind(num_perm=20, seed=9)
    found = sketch(VECTORS, **CPU)
    assert isinstance(found, gpulsh.Signatures)
    assert (found.shape, found.dtype) == ((37, 20), np.uint32)
    assert (found[2] == 2**32 - 1).all() and not (np.delete(found.values, 2, axis=0) == 2**32 - 1).any()
    pairs = [[0, 0], [0, 2], [2, 2]]
    for these in (pairs, np.array(pairs).view(np.matrix)):
        assert sketch.estimate(found, these, **CPU).tolist() == [1, 0, 0]


VECTOR_SKETCHES = [kind(num_perm=20, seed=9) for kind in KINDS] + [gpulsh.Hyperplanes(bits=128)]


@pytest.mark.parametrize("sketch", VECTOR_SKETCHES)
def test_vectors_may_have_every_type_and_layout(sketch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come in chunks of any size, on either backend."""
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    wanted = sketch(VECTORS, **CPU).values
    forms = [sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix]
    layouts = [VECTORS.tolist(), np.asfortranarray(VECTORS), np.repeat(VECTORS, 2, axis=1)[:, ::2]]
    layouts.append(sparse.csr_matrix(VECTORS).todense())  # `numpy.matrix`, of whose rows each is a matrix
    for at_once, rows in ((1 << 20, 512), (128, 3), (1, 5), (128 * 7, 1)):
        monkeypatch.setattr("gpulsh.sketch.hyperplanes.AT_ONCE", at_once)
        monkeypatch.setattr("gpulsh.sketch.hyperplanes.ROWS", rows)
        for one in [*layouts, *(form(VECTORS) for form in forms)]:
            np.testing.assert_array_equal(sketch(one, **CPU).values, wanted)
    np.testing.assert_array_equal(sketch(VECTORS, backend="reference").values, wanted)
    for dtype in (np.float32, np.float16, np.int8, np.int64, np.uint32, bool):
        some = (VECTORS * 9).astype(dtype)
        np.testing.assert_array_equal(sketch(some, **CPU).values, sketch(some.astype(float), **CPU).values)
    assert sketch(VECTORS[:0], **CPU).shape == (0, wanted.shape[1])
    assert (sketch(VECTORS[:, :0], **CPU).values == wanted[2]).all()
    # Columns out of order, one twice, and zeros that are stored.
    unsummed = sparse.csr_matrix((np.array([1.0, 2, 0, 3]), np.array([3, 1, 0, 3]), np.array([0, 4])), shape=(1, 5))
    assert (sketch(unsummed, **CPU).values == sketch([[0, 2, 0, 4, 0]], **CPU).values).all()
    assert unsummed.nnz == 4  # as it was
