"""The earth mover's distance: labels as distributions say, estimates between the exact distance and its multiple."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpulsh

NORMAL = 3.29  # beyond this many deviations lies a thousandth
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
    """By linear programming: the cheapest flow that makes `other` of `one`."""
    optimize = pytest.importorskip("scipy.optimize")
    points = len(one)
    leaves, arrives = np.kron(np.eye(points), np.ones(points)), np.kron(np.ones(points), np.eye(points))
    found = optimize.linprog(
        distances.reshape(-1), A_eq=np.vstack([leaves, arrives]), b_eq=np.concatenate([one, other])
    )
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("name", METRICS)
def test_between_the_distance_and_its_multiple(name: str) -> None:
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


def test_on_a_line_and_among_matchings() -> None:
    """Where the exact distance is known without a solver."""
    masses, distances = distributions(6, 25), METRICS["line"]
    sketch, pairs = gpulsh.EarthMover(distances, num_trees=600), [[0, 1], [2, 3], [4, 5]]
    true = abs(np.cumsum(masses[0::2] - masses[1::2], axis=1)).sum(axis=1)
    found = sketch.estimate(sketch(masses, **CPU), pairs, **CPU)
    assert (found > 0.9 * true).all() and (found < 4 * true).all()

    distances = euclidean(10, 2, seed=4)
    even = np.repeat(np.eye(2), 5, axis=1) / 5
    matched = min(sum(distances[i, 5 + p[i]] for i in range(5)) / 5 for p in permutations(range(5)))
    sketch = gpulsh.EarthMover(distances, num_trees=2000)
    (found,) = sketch.estimate(sketch(even, **CPU), [[0, 1]], **CPU)
    assert 0.95 * matched < found < np.log(10) * matched


@pytest.mark.parametrize("name", METRICS)
def test_a_label_is_a_point_by_its_probability(name: str) -> None:
    masses = distributions(3, len(METRICS[name]), seed=2)
    labels = gpulsh.EarthMover(METRICS[name], num_trees=400, seed=3)(masses, **CPU)
    assert (labels.shape, labels.dtype) == ((3, 400), np.int64)
    for row, label in zip(masses, labels, strict=True):
        share = np.bincount(label, minlength=len(row)) / len(label)
        assert (share[row == 0] == 0).all()
        assert (abs(share - row) <= 4 * np.sqrt(row * (1 - row) / len(label))).all()


def test_one_point_each_is_the_metric() -> None:
    for distances in METRICS.values():
        points = len(distances)
        sketch = gpulsh.EarthMover(distances, num_trees=3)
        labels = sketch(np.eye(points), **CPU)
        assert (labels == np.arange(points)[:, None]).all()
        pairs = np.argwhere(np.ones((points, points)))
        np.testing.assert_allclose(sketch.estimate(labels, pairs, **CPU), distances.reshape(-1), rtol=1e-14)


def naive_label(row: list[int], tree: Any) -> int:
    """Down the tree by plain integers, a draw at a time."""
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
def test_against_plain_integers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.sketch.earth_mover.CELLS_AT_ONCE", 90)
    monkeypatch.setattr("gpulsh.sketch.earth_mover.DRAWS_AT_ONCE", 3)
    masses, sketch = distributions(7, len(METRICS[name])), gpulsh.EarthMover(METRICS[name], num_trees=4, seed=7)
    units = np.rint(masses * 2**30).astype(int).tolist()
    wanted = [[naive_label(row, tree) for tree in sketch.trees] for row in units]
    for backend in ("cpu", "reference"):
        assert sketch(masses, backend=backend).tolist() == wanted


@settings(max_examples=18)
@given(st.integers(1, 12), st.integers(0, 2**64 - 1), st.integers(1, 4))
def test_trees(points: int, seed: int, dimensions: int) -> None:
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


def test_what_a_row_says_does_not_depend_on_others() -> None:
    sketch, masses = gpulsh.EarthMover(METRICS["plane"], num_trees=6), distributions(9, 30)
    whole = sketch(masses, **CPU)
    assert (np.concatenate([sketch(masses[i : i + 1], **CPU) for i in range(9)]) == whole).all()
    assert sketch(masses[:0], **CPU).shape == (0, 6)
    assert sketch.estimate(whole, np.empty((0, 2), np.int64), **CPU).shape == (0,)
