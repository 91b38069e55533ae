"""`gpulsh.EarthMover`: distributions over the points of a metric, rounded to the leaves of random trees."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Arrays, Numbers, checked_array, on_host
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.cached import cached_value
from gpulsh.checks import set_integer
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_NUM_PERM, MAX_SEED, Named
from gpulsh.permutations import splitmix64_array, stream
from gpulsh.sketch.base import checked_estimate, checked_pairs
from gpulsh.sketch.weighted import check_real, dense_rows
from gpulsh.theory import checked_number

UNIT = 1 << 30  # the probability 1, in integers
DRAWS_AT_ONCE = 32
CELLS_AT_ONCE = 1 << 22  # numbers of rows in memory
TOLERANCE = 1e-9  # of distances, as a share of the greatest
SUM_TOLERANCE = 1e-6
LONGEST = 1e150  # distance; squares and sums of distances stay finite
_GOLDEN, _S32, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32), np.uint64(0xFFFFFFFF)


class Tree(NamedTuple):
    """A hierarchy of clusters: each level cuts `order` into finer ranges, from one range to the leaves."""

    order: Numbers  # the points
    levels: list[Numbers]  # the start of each range, and the end of the last
    word: np.uint64


@dataclass(frozen=True, eq=False, repr=False)
class EarthMover(Named, Arrays):
    """Labels of distributions, one point per tree; their mean distance estimates the earth mover's distance.

    `distances` [points, points] are a metric: symmetric, 0 on the diagonal, and they satisfy the triangle inequality.
    Fakcharoenphol, Rao and Talwar's method draws each tree from the metric. A distribution goes down from
    the root. At each cluster it draws pairs of a part and a height, the same for every distribution, until the height
    is below the part's share of the cluster's probability (the rounding of Kleinberg and Tardos). It ends at its label,
    a point, with the probability of that point in the distribution. So the labels define a way to move one distribution
    to another. Their mean distance is in expectation at least the earth mover's, and at most O(log n) times as much for
    n points. Charikar 2002, with an earlier embedding, has O(log n log log n). Probabilities are rounded to multiples
    of 2^-30. A tree takes about points^2 steps per level, and a row about as many draws per level as its cluster has
    parts. Sources: Charikar 2002, *Similarity estimation techniques from rounding algorithms*, section 4;
    Fakcharoenphol, Rao, Talwar 2003, *A tight bound on approximating arbitrary metrics by tree metrics*. Raises
    ParameterError for distances that are not a metric or exceed 1e150, `num_trees` outside 1 to 65,536 and `seed`
    outside 0 to 2^64 - 1.

    >>> line = abs(np.arange(4.0)[:, None] - np.arange(4.0))
    >>> sketch = EarthMover(line, num_trees=64)
    >>> labels = sketch([[1, 0, 0, 0], [0, 0, 0, 1], [0.5, 0, 0, 0.5]], backend="cpu")
    >>> sketch.estimate(labels, [[0, 1]], backend="cpu")
    array([3.])
    """

    distances: Array
    _: KW_ONLY
    num_trees: int = 32
    seed: int = 1

    def __post_init__(self) -> None:
        set_integer(self, "num_trees", 1, MAX_NUM_PERM)
        set_integer(self, "seed", 0, MAX_SEED)
        object.__setattr__(self, "distances", _checked_metric(self.distances))

    def __call__(self, distributions: Array, *, backend: BackendName = "auto", threads: int | None = None) -> Array:
        """Labels int64 [n, num_trees], which are points, of distributions [n, points] that sum to 1.

        Raises ParameterError if a number is negative, or a row has another sum.
        """
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            rows, points = dense_rows(distributions, ops, "distributions"), len(self.distances)
            if rows.shape[1] != points:
                raise ParameterError(
                    f"distributions has shape {tuple(rows.shape)} and distances are of {points} points; give a column"
                    " for each point"
                )
            sums = ops.asnumpy(rows.sum(axis=1))
            if wrong := np.flatnonzero(abs(sums - 1) > SUM_TOLERANCE).tolist():
                raise ParameterError(
                    f"row {wrong[0]} of distributions sums to {sums[wrong[0]]:g}; give rows that sum to 1"
                )
            labels = ops.asarray(np.empty((len(rows), self.num_trees), np.int64))
            at_once = max(CELLS_AT_ONCE // rows.shape[1], 1)
            for start in range(0, len(rows), at_once):
                units = np.rint(rows[start : start + at_once] * UNIT).astype(np.int64)
                for number, tree in enumerate(self.trees):
                    labels[start : start + at_once, number] = _leaf_labels(units, tree, ops)
            return labels

    @cached_value
    def trees(self) -> list[Tree]:
        """The random trees; a larger `num_trees` adds to them."""
        points = len(self.distances)
        words = stream("earth_mover", self.seed, self.num_trees * (points + 2)).reshape(self.num_trees, -1)
        return [_tree(self.distances, each) for each in words]

    def estimate(
        self, labels: Array, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """The mean distance of the labels of each pair of rows, float64 [m], summed in the order of the trees.

        Raises ParameterError if labels are not points of the metric, or `pairs` name no rows of them.
        """
        ops = select_backend(backend, threads=threads)
        try:
            labels = ops.asarray(labels)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"labels is not an array: {error}; give the labels from the sketch") from None
        points = len(self.distances)
        is_table = labels.ndim == 2 and labels.dtype.kind in "iu" and labels.shape[1] > 0
        if not is_table or (len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < points):
            raise ParameterError(
                f"labels of {labels.dtype} with shape {tuple(labels.shape)} are not numbers from 0 to {points - 1};"
                " give the labels from the sketch"
            )
        rows, distances = checked_pairs(pairs, len(labels), ops), ops.asarray(self.distances)
        with ops.use_device():
            total = ops.asarray(np.zeros(len(rows)))
            for tree in range(labels.shape[1]):
                total = total + distances[labels[rows[:, 0], tree], labels[rows[:, 1], tree]]
            return total / labels.shape[1]

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """The greatest deviation of an estimate with mean `value`: sqrt(value (diameter - value) / num_trees).

        No distance of labels exceeds the diameter of the metric (Bhatia, Davis 2000); `size` has no influence. Raises
        ParameterError for a `value` outside 0 to the diameter and a `size` below 1.
        """
        checked_estimate(0, size)
        diameter = float(self.distances.max())
        value = checked_number("value", value)
        if not 0 <= value <= diameter:
            raise ParameterError(f"value is {value}; give a distance from 0 to {diameter:g}, the greatest distance")
        return float(np.sqrt(value * (diameter - value) / self.num_trees))


def _checked_metric(given: Array) -> NDArray[np.float64]:
    """Distances as float64 [points, points], or a ParameterError."""
    given = checked_array("distances", given, "numbers [points, points]")
    check_real(given, "distances")
    distances = np.array(on_host(given), np.float64)
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1] or not len(distances):
        raise ParameterError(f"distances has shape {distances.shape}; give a square [points, points]")
    if not bool(((distances >= 0) & (distances <= LONGEST)).all()):
        raise ParameterError(
            f"distances holds NaN, or numbers below 0 or above {LONGEST:g}; give numbers between these"
        )
    slack = TOLERANCE * distances.max()
    if bool(np.diag(distances).any()) or bool((abs(distances - distances.T) > slack).any()):
        raise ParameterError("distances is not symmetric with a diagonal of 0; give the distance of each point to each")
    for middle in range(len(distances)):
        around = distances[:, middle, None] + distances[middle]
        if wrong := np.argwhere(distances > around + slack).tolist():
            i, j = wrong[0]
            raise ParameterError(
                f"distances is not a metric: {i} to {j} is {distances[i, j]:g}, through {middle} {around[i, j]:g}; give"
                " shortest distances"
            )
    distances.flags.writeable = False
    return distances


def _tree(distances: NDArray[np.float64], words: NDArray[np.uint64]) -> Tree:
    """Clusters of the points around centres in random order, within radii that halve from a random one down."""
    points = len(distances)
    centres = np.argsort(words[:points], kind="stable")
    from_centres = distances[:, centres]
    radius = float(distances.max()) * 2.0 ** (int(words[points]) / 2**64)
    least = distances.min(where=distances > 0, initial=np.inf)
    cluster, found = np.zeros(points, np.int64), [np.zeros(points, np.int64)]
    while radius >= least and cluster.max() < points - 1:
        radius /= 2
        centre = (from_centres <= radius).argmax(axis=1)
        cluster = np.unique(cluster * points + centre, return_inverse=True)[1]
        if cluster.max() > found[-1].max():
            found.append(cluster)
    order = np.argsort(cluster, kind="stable")
    levels = [np.append(np.flatnonzero(np.diff(ids[order], prepend=-1)), points) for ids in found]
    return Tree(order, levels, words[points + 1])


def _leaf_labels(units: Array, tree: Tree, ops: Backend) -> Array:
    """The label int64 [n] of each row of probabilities int64 [n, points], in units."""
    order = ops.asarray(tree.order)
    none = ops.asarray(np.zeros((len(units), 1), np.int64))
    before = np.concatenate([none, np.cumsum(units[:, order], axis=1)], axis=1)
    node, first_node = none[:, 0], 0
    for coarse, fine in zip(tree.levels[:-1], tree.levels[1:], strict=True):
        ends, part_ends = ops.asarray(coarse), ops.asarray(fine)
        first_part = ops.asarray(np.searchsorted(fine, coarse))
        parts = first_part[node + 1] - first_part[node]
        chosen = first_part[node]
        left = np.flatnonzero(parts > 1)
        for draw in count(0, DRAWS_AT_ONCE):
            if not len(left):
                break
            at, row = node[left], left[:, None]
            number = ops.asarray(np.arange(draw, draw + DRAWS_AT_ONCE).astype(np.uint64))
            drawn_by = splitmix64_array((first_node + at).astype(np.uint64) * _GOLDEN + tree.word)
            words = splitmix64_array(drawn_by[:, None] + number * _GOLDEN)  # a part in the upper half, and a height
            part = first_part[at][:, None] + ((words >> _S32) * parts[left].astype(np.uint64)[:, None] >> _S32).astype(
                np.int64
            )
            share = before[row, part_ends[part + 1]] - before[row, part_ends[part]]
            whole = before[left, ends[at + 1]] - before[left, ends[at]]
            hits = (words & _HALF).astype(np.int64) * whole[:, None] < share << 32
            hit = np.flatnonzero(hits.any(axis=1))
            chosen[left[hit]] = part[hit, np.argmax(hits[hit], axis=1)]
            left = left[~hits.any(axis=1)]
        node, first_node = chosen, first_node + len(coarse) - 1
    return order[ops.asarray(tree.levels[-1])[node]]
