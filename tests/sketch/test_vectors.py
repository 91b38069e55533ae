"""Sketches of vectors: hyperplanes computed in whole numbers, and the earth mover's distance."""

from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

import gpulsh
from gpulsh import Hyperplanes, ParameterError
from gpulsh.permutations import words_at
from tests.support.rows import NORMAL


def coordinate(seed: int, column: int, bit: int) -> int:
    first = 2 * (384 * column + bit)
    drawn = words_at("hyperplanes", seed, np.array([first, first + 1], np.uint64))
    return sum(drawn.tobytes()) - 2040


def naive_hyperplanes(rows: list[list[float]], bits: int, seed: int) -> list[list[int]]:
    """The definition in whole numbers; x / max(|row|) is first rounded to float64, as the rule says."""
    found = []
    for row in rows:
        largest = max(map(abs, row), default=0.0) or 1.0
        whole = [round(Fraction(x / largest) * 2**15) for x in row]
        sums = [sum(w * coordinate(seed, c, bit) for c, w in enumerate(whole) if w) for bit in range(bits)]
        found.append([sum((sums[64 * w + i] > 0) << i for i in range(64)) for w in range(bits // 64)])
    return found


any_number = st.floats(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=12)
@given(
    arrays.arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(0, 5)), elements=any_number),
    st.sampled_from([64, 128]),
    st.integers(0, 2**64 - 1),
)
def test_hyperplanes_follow_the_definition(vectors: Any, bits: int, seed: int) -> None:
    found = Hyperplanes(bits=bits, seed=seed)(vectors, backend="cpu")
    assert found.values.tolist() == naive_hyperplanes(vectors.tolist(), bits, seed) and found.dtype == np.uint64
    assert found.shape == (len(vectors), bits // 64)


def test_small_entries_are_rounded() -> None:
    """If the largest entry's column has the coordinate 0, the small entry decides the bit."""
    column = next(c for c in count() if coordinate(1, c, 0) == 0 < coordinate(1, c + 1, 0))
    rows = [[0.0] * column + [1.0, x * 2**-15] for x in (0.49, 0.51, 1.49, -0.51)]
    wanted = naive_hyperplanes(rows, 64, 1)
    assert [row[0] & 1 for row in wanted] == [0, 1, 1, 0]
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    for vectors in (rows, sparse.csr_array(rows)):
        assert Hyperplanes()(vectors, backend="cpu").values.tolist() == wanted


def test_odd_sparse_vectors_are_taken_or_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    far = sparse.csr_array((np.ones(2), np.array([0, 2**30]), np.array([0, 1, 2])), shape=(2, 2**30 + 1))
    assert Hyperplanes()(far, backend="cpu").shape == (2, 1)
    assert Hyperplanes()(sparse.csr_array((0, 9)), backend="cpu").shape == (0, 1)
    twice = sparse.csr_array((np.array([1.0, 2.0, 1e9, -1e9]), np.array([1, 0, 2, 2]), np.array([0, 4])), shape=(1, 3))
    assert Hyperplanes()(twice, backend="cpu") == Hyperplanes()([[2.0, 1.0, 0.0]], backend="cpu")
    with pytest.raises(ParameterError, match="NaN or infinity in row 1"):
        Hyperplanes()(sparse.csr_array(np.array([[1.0, 0.0], [0.0, np.nan]])), backend="cpu")
    with pytest.raises(ParameterError, match="complex128"):
        Hyperplanes()(sparse.csr_array(np.array([[1j]])), backend="cpu")


@pytest.mark.parametrize(("width", "angle"), [(2, 0.1), (3, 0.8), (50, np.pi / 2), (50, 2.5)])
def test_the_angle_is_unbiased_and_deviates_as_in_theory(width: int, angle: float) -> None:
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


def test_hyperplane_bits_are_pinned() -> None:
    vectors = [[1.0, -2.0, 3.5], [0.0, 0.0, 0.0], [1e-300, 1e-301, 0.0]]
    assert Hyperplanes(bits=128)(vectors, backend="cpu").values.tolist() == GOLDEN


GOLDEN = [[1654020228635394877, 9622720655758463169], [0, 0], [4248434118691199557, 13378033708694066000]]


# --- the earth mover's distance: labels as distributions say, estimates between the exact distance and its multiple

CPU: dict[str, Any] = {"backend": "cpu"}
Matrix = NDArray[np.float64]


def euclidean(points: int, dimensions: int, seed: int = 1) -> Matrix:
    places = np.random.default_rng(seed).random((points, dimensions))
    return np.asarray(np.sqrt(((places[:, None] - places) ** 2).sum(axis=2)))


def circle(points: int) -> Matrix:
    steps = abs(np.arange(points)[:, None] - np.arange(points))
    return np.minimum(steps, points - steps).astype(np.float64)


def line(points: int) -> Matrix:
    return abs(np.arange(points)[:, None] - np.arange(float(points)))


METRICS = {
    "plane": euclidean(30, 2),
    "space": euclidean(36, 10),
    "circle": circle(40),
    "line": line(25),
    "far apart": np.where(np.eye(20) > 0, 0, 1.0),
    "two towns": np.where(np.arange(16)[:, None] // 8 == np.arange(16) // 8, 1e-6, 1.0) * (1 - np.eye(16)),
    "scales": np.maximum(*np.meshgrid(10.0 ** np.arange(12), 10.0 ** np.arange(12))) * (1 - np.eye(12)),
}


def distributions(rows: int, points: int, seed: int = 1) -> Matrix:
    generator = np.random.default_rng(seed)
    masses = generator.random((rows, points)) ** 4 * (generator.random((rows, points)) < 0.4)
    masses[:, 0] += 1e-3
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def exact(one: Matrix, other: Matrix, distances: Matrix) -> float:
    """The distance by linear programming: the cheapest flow from `one` to `other`."""
    optimize = pytest.importorskip("scipy.optimize")
    points = len(one)
    leaves, arrives = np.kron(np.eye(points), np.ones(points)), np.kron(np.ones(points), np.eye(points))
    flow = optimize.linprog(distances.reshape(-1), A_eq=np.vstack([leaves, arrives]), b_eq=np.concatenate([one, other]))
    assert flow.success
    return float(flow.fun)


@pytest.mark.parametrize("name", METRICS)
def test_earth_mover_estimates_are_within_their_bounds(name: str) -> None:
    distances = METRICS[name]
    masses = distributions(8, len(distances))
    pairs = np.array([(0, 1), (2, 3), (4, 5), (6, 7)])
    true = np.array([exact(masses[i], masses[j], distances) for i, j in pairs])
    sketch = gpulsh.EarthMover(distances, num_trees=300)
    found = sketch.estimate(sketch(masses, **CPU), pairs, **CPU)
    noise = NORMAL * np.array([sketch.standard_deviation(min(value, distances.max())) for value in found])
    points = len(distances)
    assert (found > true - noise).all()
    assert (found - noise < true * np.log(points) * max(np.log(np.log(points)), 1)).all()
    assert found.sum() < 4 * true.sum()


@pytest.mark.parametrize("name", METRICS)
def test_labels_are_drawn_by_the_mass_of_a_point(name: str) -> None:
    masses = distributions(3, len(METRICS[name]), seed=2)
    labels = gpulsh.EarthMover(METRICS[name], num_trees=400, seed=3)(masses, **CPU)
    assert (labels.shape, labels.dtype) == ((3, 400), np.int64)
    for row, label in zip(masses, labels, strict=True):
        share = np.bincount(label, minlength=len(row)) / len(label)
        assert (share[row == 0] == 0).all()
        assert (abs(share - row) <= 4 * np.sqrt(row * (1 - row) / len(label))).all()


def test_rows_of_one_point_have_the_distance_of_the_metric() -> None:
    assert gpulsh.EarthMover(METRICS["plane"], num_trees=6)(np.empty((0, 30)), **CPU).shape == (0, 6)
    for distances in METRICS.values():
        points = len(distances)
        sketch = gpulsh.EarthMover(distances, num_trees=3)
        labels = sketch(np.eye(points), **CPU)
        assert (labels == np.arange(points)[:, None]).all()
        pairs = np.argwhere(np.ones((points, points)))
        np.testing.assert_allclose(sketch.estimate(labels, pairs, **CPU), distances.reshape(-1), rtol=1e-14)
        assert sketch.estimate(labels, pairs[:0], **CPU).shape == (0,)
        for kind in ("i4", ">i8", "u8"):  # as a file may hold them
            np.testing.assert_array_equal(sketch.estimate(labels.astype(kind), pairs), sketch.estimate(labels, pairs))


def naive_label(row: list[int], tree: Any) -> int:
    """Walk down the tree in plain integers, one draw at a time."""
    mask = (1 << 64) - 1

    def mixed(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    order, node, first = tree.order.tolist(), 0, 0
    for coarse, fine in zip(tree.levels[:-1], tree.levels[1:], strict=True):
        ends = fine.tolist()
        parts = [k for k in range(len(ends) - 1) if coarse[node] <= ends[k] < coarse[node + 1]]
        mass = {k: sum(row[order[place]] for place in range(ends[k], ends[k + 1])) for k in parts}
        chosen, draw = parts[0], 0
        while len(parts) > 1:
            word = mixed(((first + node) * 0x9E3779B97F4A7C15 + int(tree.word)) & mask)
            word = mixed(word + draw * 0x9E3779B97F4A7C15 & mask)
            chosen, draw = parts[(word >> 32) * len(parts) >> 32], draw + 1
            if (word & 0xFFFFFFFF) * sum(mass.values()) < mass[chosen] << 32:
                break
        first, node = first + len(coarse) - 1, chosen
    return int(order[tree.levels[-1][node]])


@pytest.mark.parametrize("name", METRICS)
def test_labels_equal_a_walk_in_plain_integers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.sketch.earth_mover.CELLS_AT_ONCE", 90)
    monkeypatch.setattr("gpulsh.sketch.earth_mover.DRAWS_AT_ONCE", 3)
    masses, sketch = distributions(7, len(METRICS[name])), gpulsh.EarthMover(METRICS[name], num_trees=4, seed=7)
    units = np.rint(masses * 2**30).astype(int).tolist()
    wanted = [[naive_label(row, tree) for tree in sketch.trees] for row in units]
    for backend in ("cpu", "reference"):
        assert sketch(masses, backend=backend).tolist() == wanted


@settings(max_examples=18)
@given(st.integers(1, 12), st.integers(0, 2**64 - 1), st.integers(1, 4))
def test_trees_refine_down_to_equal_points(points: int, seed: int, dimensions: int) -> None:
    there = np.arange(points) % max(2 * points // 3, 1)  # a third of the places hold two points
    distances = euclidean(points, dimensions, seed=seed % 1000)[np.ix_(there, there)]
    sketch = gpulsh.EarthMover(distances, num_trees=2, seed=seed)
    for tree in sketch.trees:
        assert sorted(tree.order.tolist()) == list(range(points))
        assert tree.levels[0].tolist() == [0, points]
        for coarse, fine in zip(tree.levels[:-1], tree.levels[1:], strict=True):
            assert set(coarse.tolist()) < set(fine.tolist())
        leaves = np.split(tree.order, tree.levels[-1][1:-1])
        assert all((distances[np.ix_(leaf, leaf)] == 0).all() for leaf in leaves)
    more = gpulsh.EarthMover(distances, num_trees=3, seed=seed).trees
    assert all((one.order == other.order).all() for one, other in zip(sketch.trees, more, strict=False))
