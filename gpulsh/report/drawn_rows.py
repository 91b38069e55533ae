"""Draws the rows and clusters of duplicates.parquet that a report shows, with a part of the rows in memory at a time.

All rows of a cluster are in one part. Clusters are drawn at random by a hash of their numbers, so the parts decide
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values
from gpulsh.ragged import find_sorted, sorted_distinct

SIZES = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 1025, 16385)  # documents of a cluster: the least of each class
EXAMPLES = 6
MANY_ROWS = 1 << 20  # of more, only some are considered as examples, evenly spaced
SAMPLE = {"largest": 10, "random": 24, "above": 12, "below": 12}  # clusters of each kind
MEMBERS = 3  # dropped documents of each
ROWS_PER_CLUSTER = 64  # rows next to the threshold for each cluster shown: they may be of few clusters
CANDIDATES = {**SAMPLE, "any": SAMPLE["random"]}
CANDIDATES |= {kind: ROWS_PER_CLUSTER * SAMPLE[kind] for kind in ("above", "below")}
SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd, so no two numbers become the same


class DroppedRows(NamedTuple):
    """Some rows of duplicates.parquet: a dropped document each."""

    row: Numbers  # int64 [k] ascending: their numbers
    similarity: NDArray[np.float32]
    cluster: Numbers

    @classmethod
    def concat(cls, parts: Iterable[DroppedRows]) -> DroppedRows:
        """The rows of all `parts`, end to end."""
        none = cls(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64))
        return cls(*map(np.concatenate, zip(none, *parts, strict=True)))

    def select(self, chosen: Numbers) -> DroppedRows:
        """The rows at these places."""
        return DroppedRows(self.row[chosen], self.similarity[chosen], self.cluster[chosen])


ReadRows = Callable[[], Iterator[DroppedRows]]  # all rows in order, some at a time


def example_rows(read: ReadRows) -> Numbers:
    """A few dropped documents, each of another cluster, from the least to the most similar; copies if all are."""
    near = every = 0
    for rows in read():
        near, every = near + int(np.count_nonzero(rows.similarity < 1)), every + len(rows.row)

    def considered() -> Iterator[DroppedRows]:
        step, seen = (near or every) // MANY_ROWS + 1, 0
        for rows in read():
            here = np.flatnonzero(rows.similarity < 1) if near else np.arange(len(rows.row))
            yield rows.select(here[-seen % step :: step])
            seen += len(here)

    found = DroppedRows.concat(considered())
    found = found.select(np.unique(found.cluster, return_index=True)[1])
    found = found.select(np.argsort(found.similarity, kind="stable"))
    count = len(found.row)
    return found.row[np.unique(np.linspace(0, count - 1, min(EXAMPLES, count)).round().astype(np.int64))]


class Ranked(NamedTuple):
    """Clusters in the order of `value`, then `place`."""

    value: Values
    place: Numbers  # a row of the cluster, or its number
    cluster: Numbers
    size: Numbers  # its dropped documents

    def merge(self, other: Ranked, count: int) -> Ranked:
        """The first `count` of both."""
        both = Ranked(*map(np.concatenate, zip(self, other, strict=True)))
        order = np.lexsort((both.place, both.value))[:count]
        return Ranked(*(column[order] for column in both))


@dataclass(frozen=True)
class DrawnClusters:
    """How many clusters there are of each size, and some clusters by number."""

    size_counts: Numbers  # int64 [SIZES]
    sizes: Mapping[int, int]  # the dropped documents of each drawn cluster
    kinds: Mapping[int, Sequence[str]]  # what each is drawn for: keys of SAMPLE


def draw_clusters(read: ReadRows, threshold: float, bits: int = 0) -> DrawnClusters:
    """Count all clusters and draw some, with one of 2^`bits` parts of the rows in memory at a time.

    `largest` clusters have two dropped documents or more. `random` ones have more than exact copies, if any cluster
    has. `above` and `below` have a document next to the threshold; a connected component may drop one below it.
    """
    counts, found = np.zeros(len(SIZES), np.int64), dict[str, Ranked]()
    parts = 1 << bits
    for part in range(parts):
        rows = DroppedRows.concat(rows.select(np.flatnonzero(rows.cluster & (parts - 1) == part)) for rows in read())
        labels, sizes = np.unique(rows.cluster, return_counts=True)
        counts += size_counts(sizes)
        for kind, some in _candidates(rows, labels, sizes, np.float32(threshold)):
            found[kind] = found[kind].merge(some, CANDIDATES[kind]) if part else some
    if not len(found["random"].value):
        found["random"] = found["any"]
    size_of, kinds = dict[int, int](), dict[int, list[str]]()
    for kind, count in SAMPLE.items():
        of_kind = dict(zip(found[kind].cluster.tolist(), found[kind].size.tolist(), strict=True))
        for label, size in list(of_kind.items())[:count]:
            size_of[label] = size
            kinds.setdefault(label, []).extend([kind] if kind != "largest" or size > 1 else [])
    return DrawnClusters(counts, size_of, kinds)


def _candidates(
    rows: DroppedRows, labels: Numbers, sizes: Numbers, threshold: np.float32
) -> Iterator[tuple[str, Ranked]]:
    """The first CANDIDATES of each kind among whole clusters."""

    def ranked(kind: str, value: Values, place: Numbers, cluster: Numbers) -> tuple[str, Ranked]:
        chosen = least_indices(value, CANDIDATES[kind])
        cluster = cluster[chosen]
        return kind, Ranked(value[chosen], place[chosen], cluster, sizes[np.searchsorted(labels, cluster)])

    yield ranked("largest", -sizes, labels, labels)
    near = rows.select(np.flatnonzero(rows.similarity < 1))
    for kind, some in (("any", labels), ("random", sorted_distinct(near.cluster))):
        yield ranked(kind, some.astype(np.uint64) * SCATTER, some, some)
    is_above = near.similarity >= threshold
    above, below = near.select(np.flatnonzero(is_above)), near.select(np.flatnonzero(~is_above))
    yield ranked("above", above.similarity, above.row, above.cluster)
    yield ranked("below", -below.similarity, below.row, below.cluster)


def member_rows(read: ReadRows, clusters: Iterable[int], threshold: float) -> dict[int, Numbers]:
    """A few rows of each of `clusters`, nearest to the threshold first."""
    wanted = np.sort(np.fromiter(clusters, np.int64))
    found = {label: (np.empty(0, np.float32), np.empty(0, np.int64)) for label in wanted.tolist()}
    for rows in read():
        rows = rows.select(find_sorted(wanted, rows.cluster)[0])
        far = np.abs(rows.similarity - np.float32(threshold))
        for label in sorted_distinct(rows.cluster).tolist():
            here = np.flatnonzero(rows.cluster == label)
            far_before, row_before = found[label]
            every_far, every_row = np.append(far_before, far[here]), np.append(row_before, rows.row[here])
            chosen = least_indices(every_far, MEMBERS)
            found[label] = every_far[chosen], every_row[chosen]
    return {label: row for label, (_, row) in found.items()}


def size_counts(sizes: Numbers) -> Numbers:
    """int64 [SIZES]: how many of `sizes` are in each class."""
    return np.bincount(np.searchsorted(SIZES, sizes, side="right") - 1, minlength=len(SIZES))


def least_indices(values: Values, count: int) -> Numbers:
    """int64: the places of the `count` least values, in order; earlier places first among equal values.

    >>> least_indices(np.array([3, 1, 2, 1]), 2).tolist()
    [1, 3]
    """
    places = np.arange(len(values))
    if len(values) > count:
        # Not `<=`: NaN, not measured, comes last, and may be the bound.
        places = np.flatnonzero(~(values > np.partition(values, count - 1)[count - 1]))
    return places[np.argsort(values[places], kind="stable")][:count]
