"""Sketches of weighted sets and vectors: bias, variance, laws, what they take and what they refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh import Shingling
from tests.support.rows import SCALES, weighted_of

NORMAL = 3.29  # beyond this many deviations lies a thousandth
KINDS = [gpulsh.WeightedMinHash, gpulsh.KleinbergTardos]
VALUES = 65536  # the longest signature, which holds 1024 of 64 values
CPU: dict[str, Any] = {"backend": "cpu"}


def alike(columns: int, scale: str, share: float) -> np.ndarray:
    """float64 [2, columns]: two vectors of which about `share` of the numbers are the same, and some 0."""
    generator = np.random.default_rng(columns)
    rows = SCALES[scale](generator, 2 * columns).reshape(2, columns)
    rows[1] = np.where(generator.random(columns) < share, rows[0], rows[1])
    rows *= generator.random(rows.shape) < 0.9
    return np.asarray(rows + [[0.5], [0.25]] * (rows.sum(axis=1, keepdims=True) == 0))


def similarity(rows: np.ndarray) -> float:
    return float(np.minimum(*rows).sum() / np.maximum(*rows).sum())


def agreements(kind: Any, rows: np.ndarray, seeds: range) -> np.ndarray:
    """bool [seeds * VALUES]: whether two rows have a value in common; values are independent."""
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
def test_bias_and_variance(kind: Any, scale: str, columns: int, share: float) -> None:
    if kind is gpulsh.KleinbergTardos and columns > 40:
        pytest.skip("its draws grow with the columns")
    rows = alike(columns, scale, share)
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
    rows = alike(10, "uniform", 0.5)
    exact, found = similarity(rows), agreements(kind, rows * factor, range(2))
    assert abs(found.mean() - exact) < NORMAL * np.sqrt(exact * (1 - exact) / len(found))


def test_very_different_weights_are_compared() -> None:
    """A set within another a thousandth of its weight; and one element that outweighs all others."""
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
def test_the_union_has_its_values_from_either(one: dict[int, float], other: dict[int, float], seed: int) -> None:
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


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taken(kind: Any) -> None:
    dense = np.random.default_rng(1).random((6, 9)) * (np.random.default_rng(2).random((6, 9)) < 0.5)
    dense[2] = 0
    sketch = kind(num_perm=20, seed=9)
    wanted = sketch(dense, **CPU)
    assert isinstance(wanted, gpulsh.Signatures)
    assert (wanted.shape, wanted.dtype) == ((6, 20), np.uint32)
    assert (wanted[2] == 2**32 - 1).all() and not (np.delete(wanted.values, 2, axis=0) == 2**32 - 1).any()
    for same in (dense.tolist(), np.asfortranarray(dense), dense * 1.0, np.repeat(dense, 2, axis=1)[:, ::2]):
        assert (sketch(same, **CPU)[:] == wanted[:]).all()
    narrow = dense.astype(np.float32)
    assert (sketch(narrow, **CPU)[:] == sketch(narrow.astype(float), **CPU)[:]).all()
    counts = (dense * 9).astype(int)
    assert (sketch(counts, **CPU)[:] == sketch(counts.astype(float), **CPU)[:]).all()
    assert sketch(dense[:0], **CPU).shape == (0, 20)
    assert (sketch(dense[:, :0], **CPU)[:] == 2**32 - 1).all()
    assert sketch.estimate(wanted, [[0, 0], [0, 2], [2, 2]], **CPU).tolist() == [1, 0, 0]
    assert (sketch(dense, backend="reference")[:] == wanted[:]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_matrices(kind: Any) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.random.default_rng(1).random((6, 9)) * (np.random.default_rng(2).random((6, 9)) < 0.5)
    dense[2] = 0
    sketch = kind(num_perm=20)
    wanted = sketch(dense, **CPU)
    for form in ("csr", "csc", "coo"):
        assert (sketch(sparse.csr_matrix(dense).asformat(form), **CPU)[:] == wanted[:]).all()
    # Columns out of order, one twice, and zeros that are stored.
    given_rows = sparse.csr_matrix((np.array([1.0, 2, 0, 3]), np.array([3, 1, 0, 3]), np.array([0, 4])), shape=(1, 5))
    assert (sketch(given_rows, **CPU)[:] == sketch([[0, 2, 0, 4, 0]], **CPU)[:]).all()
    assert given_rows.nnz == 4  # as it was


def test_from_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.text.documents.BATCH_BYTES", 20)
    texts, shingling = ["a b a b c", None, "b c d", "", "a a a b"], Shingling(size=1)
    sketch = gpulsh.WeightedMinHash(num_perm=30)
    for weights in ("count", "idf"):
        wanted = sketch(gpulsh.weigh(texts, weights, shingling=shingling, **CPU), **CPU)  # type: ignore[arg-type]
        found = sketch.from_texts(texts, weights, shingling=shingling, **CPU)  # type: ignore[arg-type]
        assert (found[:] == wanted[:]).all()
    assert sketch.from_texts([], **CPU).shape == (0, 30)
