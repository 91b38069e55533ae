"""Compares pairs of documents by the measure that `verify` and `measure` choose, with few fingerprints in memory.

Pairs are compared tile by tile. A tile is a set of documents whose fingerprints fit into memory. Documents of one
connected component share a tile where they fit, so that each is shingled only once.

Bounds rule out most pairs before fingerprints are compared: the sizes of two sets, and, where pairs are many, a bitmap
of each document. A bitmap has at most a tenth of the bytes of the fingerprints, and comparing two takes a few
instructions. A bound never rules out a pair at or above the threshold. An index of shingles would not help where many
documents share much but few share enough: it lists the same pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Numbers
from gpulsh.backends.parts import halves_of_numbers, in_fitting_halves, in_fitting_parts
from gpulsh.backends.protocol import Backend, Sizes
from gpulsh.decide.readable import Readable, row_sizes
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh.pairs import chosen_pairs, order_of, renumbered, share
from gpulsh.method import Method
from gpulsh.params import Family
from gpulsh.ragged import first_of_runs
from gpulsh.sketch.base import estimates
from gpulsh.stats.stages import Advance, no_progress

BITMAPS_PAY = 4  # pairs per document of a tile from which its bitmaps pay
PAIRS_AT_ONCE = 1 << 18  # pairs compared between two reports of progress
BOUNDS_AT_ONCE = 1 << 18  # pairs whose bitmaps are compared together
FEWEST_WORDS, MOST_WORDS = 16, 256  # of a bitmap
BITMAP_BYTES = 32 << 20  # of all bitmaps, unless documents are very many
NONE = np.empty(0, np.int64)

# A measure gives float64 [m], the similarity of pairs [m, 2] of rows of fingerprints, or NaN where it is unknown. The
# fingerprints come whole or in ranges of values.
Measure = Callable[[Numbers, Iterable[Fingerprints], Backend], NDArray[np.float64]]


def exact(rows: Numbers, parts: Iterable[Fingerprints], ops: Backend) -> NDArray[np.float64]:
    """Exact Jaccard similarity."""
    both, either = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    pairs = ops.asarray(rows)
    for part in parts:
        shared, together = ops.intersect(pairs, part)
        both, either = both + ops.asnumpy(shared), either + ops.asnumpy(together)
    found: NDArray[np.float64] = share(both, either)
    return found


def contained(rows: Numbers, parts: Iterable[Fingerprints], ops: Backend) -> NDArray[np.float64]:
    """The share of the second document of each pair that the first one contains."""
    both, whole = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    pairs = ops.asarray(rows)
    for part in parts:
        both = both + ops.asnumpy(ops.intersect(pairs, part)[0])
        whole = whole + row_sizes(part, ops)[rows[:, 1]]
    found: NDArray[np.float64] = share(both, whole)
    return found


def estimated(family: Family) -> Measure:
    """The share of equal signature values."""

    def measure(rows: Numbers, parts: Iterable[Fingerprints], ops: Backend) -> NDArray[np.float64]:
        sketch = ops.set_sketch(family)
        signatures = sketch.finish(reduce(sketch.merge, map(sketch.fold, parts)))
        return ops.asnumpy(estimates(signatures, ops.asarray(rows)))  # type: ignore[no-any-return]

    return measure


def unmeasured(rows: Numbers, parts: Iterable[Fingerprints], ops: Backend) -> NDArray[np.float64]:
    """NaN for every pair: all of them count, and none is measured."""
    return np.full(len(rows), np.nan)


def measure_of(method: Method) -> Measure:
    """The measure that `verify` and `measure` choose."""
    if method.verify == "exact":
        return contained if method.measure == "containment" else exact
    return estimated(method.family) if method.verify == "signature" else unmeasured


def compare(
    pairs: Numbers,
    texts: Readable,
    measure: Measure,
    threshold: float,
    ops: Backend,
    advance: Advance = no_progress,
    drawn: Numbers = NONE,
) -> NDArray[np.float64]:
    """Similarity float64 [m] of `pairs` [m, 2] of places; -1 where a bound rules out `threshold`.

    Pairs that `drawn` lists are measured in any case.
    """
    similarity, text_sizes = np.full(len(pairs), -1.0), texts.text_sizes()
    is_drawn = np.zeros(len(pairs), bool)
    is_drawn[drawn] = True
    reporting = Lock()

    def report(done: int) -> None:
        with reporting:
            advance(done)

    def measured(lane: Backend, group: Numbers) -> list[tuple[Numbers, NDArray[np.float64]]]:
        tile = _Tile(pairs, is_drawn, texts.on(lane), text_sizes, measure, threshold, lane, report)
        return list(in_fitting_halves(group, tile.whole, halves_of_numbers, tile.by_range))

    for parts in ops.pipelined_map(grouped_by_tile(pairs, text_sizes, ops), measured):
        for part, values in parts:
            similarity[part] = values
    return similarity


@dataclass(frozen=True)
class _Tile:
    """Pairs whose documents are read together."""

    pairs: Numbers
    is_drawn: NDArray[np.bool_]  # [pairs] whether a pair is measured whatever bounds say
    texts: Readable
    text_sizes: Numbers
    measure: Measure
    threshold: float
    ops: Backend
    report: Advance

    def whole(self, numbers: Numbers) -> NDArray[np.float64]:
        """The similarity of the pairs `numbers`; DeviceMemoryError where memory does not hold all fingerprints."""
        places, rows = renumbered(chosen_pairs(self.pairs, numbers), len(self.text_sizes))
        if self._ranges(places) > 1:
            raise DeviceMemoryError("the texts of a tile are more than the budget allows")
        ops, similarity, done = self.ops, np.full(len(rows), -1.0), 0
        try:
            fingerprints = self.texts.fingerprints(places)
            sizes = row_sizes(fingerprints, ops)
            bitmaps = None
            if self.threshold > 0 and len(rows) > BITMAPS_PAY * len(places):
                bitmaps = ops.bitmaps(fingerprints, words_for(sizes, len(sizes), self.threshold))
            at_once = PAIRS_AT_ONCE if self.threshold > 0 else max(len(rows), 1)  # each call may make signatures
            for start in range(0, len(rows), at_once):
                some = slice(start, min(start + at_once, len(rows)))
                if bitmaps is None:
                    possible = sizes_allow(sizes[rows[some, 0]], sizes[rows[some, 1]], self.threshold)
                else:
                    possible = bounds_allow(rows[some], bitmaps, fingerprints.lengths, self.threshold, ops)
                chosen = start + np.flatnonzero(possible | self.is_drawn[numbers[some]])
                similarity[chosen] = self.measure(chosen_pairs(rows, chosen), [fingerprints], ops)
                self.report(some.stop - start)
                done = some.stop
        except DeviceMemoryError:
            self.report(-done)
            raise
        return similarity

    def by_range(self, numbers: Numbers) -> NDArray[np.float64]:
        """The similarity of one pair that memory does not hold, from ranges of fingerprints."""
        places, rows = renumbered(chosen_pairs(self.pairs, numbers), len(self.text_sizes))
        found, _ = in_fitting_parts(
            lambda parts: self.measure(rows, self.texts.fingerprints_by_range(places, parts), self.ops),
            max(2, self._ranges(places)),
        )
        self.report(1)
        return found

    def _ranges(self, places: Numbers) -> int:
        """The number of ranges of fingerprints so that memory holds one range."""
        whole = self.ops.sizes().whole
        return max(1, -(-int(self.text_sizes[places].sum()) // whole)) if whole is not None else 1


# --- bounds


def words_for(sizes: Numbers, documents: int, threshold: float) -> int:
    """Words of a bitmap, a power of two, for `documents` of about `sizes` [n] fingerprints.

    Sets of n that are just similar enough differ in 2 n (1 - t) / (1 + t) elements. Four times as many bits tell most
    pairs that differ in more.
    """
    apart = 2 * float(sizes.mean()) * (1 - threshold) / (1 + threshold) if len(sizes) else 0.0
    words = FEWEST_WORDS
    while words < MOST_WORDS and words * 64 < 4 * apart and documents * words * 16 <= BITMAP_BYTES:
        words *= 2
    return words


def bounds_allow(pairs: Numbers, bitmaps: Array, sizes: Array, threshold: float, ops: Backend) -> NDArray[np.bool_]:
    """bool [m]: whether `bitmaps` [n, words] and `sizes` [n] let rows `pairs` [m, 2] reach `threshold`."""
    allowed = np.empty(len(pairs), bool)
    for start in range(0, len(pairs), BOUNDS_AT_ONCE):
        some = ops.asarray(pairs[start : start + BOUNDS_AT_ONCE])
        bound = ops.overlap_bounds(some, bitmaps, sizes)
        either = sizes[some[:, 0]] + sizes[some[:, 1]] - bound
        allowed[start : start + BOUNDS_AT_ONCE] = ops.asnumpy(share(bound, either) >= threshold)
    return allowed


def sizes_allow(left: Numbers, right: Numbers, threshold: float) -> NDArray[np.bool_]:
    """bool [m]: whether sets of these sizes can reach `threshold`: J <= smaller / larger, rounding included."""
    smaller, larger = np.minimum(left, right), np.maximum(left, right)
    allowed: NDArray[np.bool_] = share(smaller, larger) >= threshold
    return allowed


# --- tiles


def grouped_by_tile(pairs: Numbers, text_sizes: Numbers, ops: Backend) -> list[Numbers]:
    """Pair numbers grouped by the tiles of their places."""
    if len(pairs) == 0:
        return []
    sizes = ops.sizes()
    if int(text_sizes.sum()) < sizes.tile:
        return [np.arange(len(pairs))]
    is_read = np.zeros(len(text_sizes), bool)  # documents of large buckets alone take no room in a tile
    is_read[pairs] = True
    component = ops.asnumpy(ops.components(len(text_sizes), ops.asarray(pairs)))
    tiles = _tiles(component, np.where(is_read, text_sizes, 0), sizes)
    first, second = tiles[pairs[:, 0]], tiles[pairs[:, 1]]
    both = np.minimum(first, second) << 32 | np.maximum(first, second) if bool((first != second).any()) else first
    order = order_of(both, int(both.max()) + 1)
    return np.split(order, np.flatnonzero(first_of_runs(both[order]))[1:])


def _tiles(component: Numbers, text_sizes: Numbers, sizes: Sizes) -> Numbers:
    """int64 [n]: a tile for each place; components stay whole where they fit, in the order of their first place."""
    order = order_of(component, len(component))
    begins = np.cumsum(text_sizes[order]) - text_sizes[order]
    component_start = np.maximum.accumulate(np.where(first_of_runs(component[order]), begins, 0))
    # A component goes into the tile that it begins in, and into further ones where it is larger than a tile.
    inside = (begins - component_start) // sizes.largest_tile
    tile = component_start // sizes.tile + inside
    tile_of = np.empty(len(order), np.int64)
    tile_of[order] = np.maximum.accumulate(tile)
    return tile_of
