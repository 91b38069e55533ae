"""Compares pairs of documents by the measure that `verify` and `measure` choose, with few fingerprints in memory.

Pairs are compared tile by tile. A tile is a set of documents whose fingerprints fit into memory. Documents of one
connected component share a tile where they fit, so that each is shingled only once.

Bounds rule out most pairs before fingerprints are compared: the sizes of two sets, and, where pairs are many, a bitmap
of each document. A bitmap has at most a tenth of the bytes of the fingerprints, and comparing two takes a few
instructions. A bound never rules out a pair at or above the threshold. An index of shingles would not help where many
documents share much but few share enough: it lists the same pairs.

All of it is array code, in the memory of the backend: NumPy's or CuPy's arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from threading import Lock

import numpy as np

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.parts import run_in_fitting_halves, run_in_fitting_parts
from gpulsh.backends.protocol import Backend, Sizes
from gpulsh.decide.fingerprint_source import FingerprintSource
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh.pairs import radix_order, ratio, renumber, select_pairs
from gpulsh.method import Method
from gpulsh.params import Family
from gpulsh.ragged import first_of_runs
from gpulsh.sketch.base import estimates
from gpulsh.stats.stages import Advance, no_progress

BITMAPS_PAY = 4  # pairs per document of a tile from which its bitmaps pay
PAIRS_AT_ONCE = 1 << 18  # pairs compared between two reports of progress
BOUNDS_AT_ONCE = 1 << 18  # pairs whose bitmaps are compared together
MIN_WORDS, MAX_WORDS = 16, 256  # of a bitmap
BITMAP_BYTES = 32 << 20  # of all bitmaps, unless documents are very many

# A measure gives float64 [m], the similarity of pairs int64 [m, 2] of rows of fingerprints, or NaN where it is unknown.
# The fingerprints come whole or in ranges of values.
Measure = Callable[[Array, Iterable[Fingerprints], Backend], Array]


def exact_jaccard(rows: Array, parts: Iterable[Fingerprints], ops: Backend) -> Array:
    """Exact Jaccard similarity."""
    both = either = np.zeros(len(rows), np.int64, like=rows)
    for part in parts:
        shared, together = ops.intersect(rows, part)
        both, either = both + shared, either + together
    return ratio(both, either)


def contained_share(rows: Array, parts: Iterable[Fingerprints], ops: Backend, *, either: bool = False) -> Array:
    """The share of the second document of each pair that the first contains; with `either`, of the smaller one."""
    both, sizes = np.zeros(len(rows), np.int64, like=rows), np.zeros_like(rows)
    for part in parts:
        both, sizes = both + ops.intersect(rows, part)[0], sizes + part.lengths[rows]
    return ratio(both, sizes.min(axis=1) if either else sizes[:, 1])


def estimated_jaccard(family: Family, rows: Array, parts: Iterable[Fingerprints], ops: Backend) -> Array:
    """The share of equal signature values."""
    with ops.use_device():
        sketch = ops.set_sketch(family)
        return estimates(sketch.finish(reduce(sketch.merge, map(sketch.fold, parts))), rows)


def makes_signatures(measure: Measure) -> bool:
    """Whether each call of a measure makes the signatures of all its documents."""
    return isinstance(measure, partial) and measure.func is estimated_jaccard


def measure_of(method: Method) -> Measure:
    """The measure that `verify` and `measure` choose; `verify="none"` measures nothing."""
    if method.verify == "signature":
        return partial(estimated_jaccard, method.family)
    if method.measure == "containment":
        return partial(contained_share, either=not method.drop_contained_only)
    return exact_jaccard


def compare(
    pairs: Array,
    texts: FingerprintSource,
    measure: Measure,
    threshold: float,
    ops: Backend,
    advance: Advance = no_progress,
    drawn: Array | None = None,
) -> Array:
    """Similarity float64 [m] of `pairs` int64 [m, 2] of places; -1 where a bound rules out `threshold`.

    Pairs that `drawn` lists are measured in any case.
    """
    text_sizes, is_drawn = texts.text_sizes(), np.zeros(len(pairs), bool, like=pairs)
    if drawn is not None:
        is_drawn[drawn] = True
    sizes, reporting = ops.sizes(), Lock()
    # Several tiles at once hide the way of texts to a device. Where they are there, larger tiles in turn are faster:
    # the host starts fewer kernels, and its threads do not wait for one another.
    in_turn = sizes.only > 0 and (texts.is_on_device or int(text_sizes.sum()) < sizes.only)
    if in_turn:
        sizes = sizes._replace(tile=sizes.only, largest_tile=sizes.only)
    order, spans = order_by_tile(pairs, text_sizes, sizes, ops)

    def report(done: int) -> None:
        with reporting:
            advance(done)

    def measured(lane: Backend, span: tuple[int, int]) -> Array:
        with ops.use_device():  # the lane may have another device
            numbers = order[slice(*span)]
            some, flags = select_pairs(pairs, numbers), is_drawn[numbers]
        some, flags = lane.asarray(some), lane.asarray(flags)
        tile = _Tile(some, flags, replace(texts, ops=lane), text_sizes, measure, threshold, lane, report)
        parts = run_in_fitting_halves(range(len(numbers)), tile.compare_whole, _halves, tile.compare_by_range)
        return np.concatenate([values for _, values in parts])

    similarity = np.empty(len(pairs), np.float64, like=pairs)
    found = map(partial(measured, ops), spans) if in_turn else ops.pipelined_map(spans, measured)
    for (start, stop), values in zip(spans, found, strict=True):
        similarity[order[start:stop]] = ops.asarray(*ops.keep(values))
    return similarity


def _halves(numbers: range) -> tuple[range, range]:
    middle = len(numbers) // 2
    return numbers[:middle], numbers[middle:]


@dataclass(frozen=True)
class _Tile:
    """Pairs whose documents are read together."""

    pairs: Array  # int64 [m, 2]
    is_drawn: Array  # bool [m] whether a pair is measured regardless of bounds
    texts: FingerprintSource
    text_sizes: Array
    measure: Measure
    threshold: float
    ops: Backend
    report: Advance

    def compare_whole(self, numbers: range) -> Array:
        """The similarity of the pairs `numbers`; DeviceMemoryError if memory does not hold all fingerprints."""
        ops, done = self.ops, 0
        try:
            with ops.use_device():
                places, rows, ranges = self._documents(numbers)
                if ranges > 1:
                    if int(self.text_sizes[places].max()) > ops.sizes().largest_tile:
                        return self.compare_by_range(numbers)  # one document is most of them
                    raise DeviceMemoryError("the texts of a tile are more than the budget allows")
                similarity, fingerprints = np.full_like(rows[:, 0], -1.0, np.float64), self.texts.fingerprints(places)
                sizes, bitmaps = fingerprints.lengths, None
                if self.threshold > 0 and len(rows) > BITMAPS_PAY * len(places):
                    bitmaps = ops.bitmaps(fingerprints, bitmap_words(sizes, len(sizes), self.threshold))
                at_once = max(len(rows), 1) if makes_signatures(self.measure) else PAIRS_AT_ONCE
                for start in range(0, len(rows), at_once):
                    some = rows[start : start + at_once]
                    is_drawn = self.is_drawn[numbers.start + start : numbers.start + start + len(some)]
                    chosen = np.flatnonzero(bounds_allow(some, bitmaps, sizes, self.threshold, ops) | is_drawn)
                    similarity[start + chosen] = self.measure(select_pairs(some, chosen), [fingerprints], ops)
                    self.report(len(some))
                    done += len(some)
                return similarity
        except DeviceMemoryError:
            self.report(-done)
            raise

    def compare_by_range(self, numbers: range) -> Array:
        """The similarity of pairs that memory does not hold, from ranges of fingerprints."""
        places, rows, ranges = self._documents(numbers)
        found, _ = run_in_fitting_parts(
            lambda parts: self.measure(rows, self.texts.fingerprints_by_range(places, parts), self.ops), max(2, ranges)
        )
        self.report(len(rows))
        return found

    def _documents(self, numbers: range) -> tuple[Array, Array, int]:
        """The places in the pairs `numbers`, the pairs as rows of these, and the number of ranges. Memory holds one."""
        places, rows = renumber(self.pairs[numbers.start : numbers.stop], len(self.text_sizes))
        whole = self.ops.sizes().whole
        return places, rows, 1 if whole is None else -(-int(self.text_sizes[places].sum()) // whole)


# --- bounds


def bitmap_words(sizes: Array, documents: int, threshold: float) -> int:
    """Words of a bitmap, a power of two, for `documents` of about `sizes` [n] fingerprints.

    Sets of n that are just similar enough differ in 2 n (1 - t) / (1 + t) elements. Four times as many bits tell most
    pairs that differ in more.
    """
    apart = 2 * float(sizes.mean()) * (1 - threshold) / (1 + threshold) if len(sizes) else 0.0
    words = MIN_WORDS
    while words < MAX_WORDS and words * 64 < 4 * apart and documents * words * 16 <= BITMAP_BYTES:
        words *= 2
    return words


def bounds_allow(pairs: Array, bitmaps: Array | None, sizes: Array, threshold: float, ops: Backend) -> Array:
    """bool [m]: whether `sizes` [n], and `bitmaps` [n, words] if there are any, let rows `pairs` [m, 2] be similar.

    No bound rules out a pair at or above `threshold`: J <= bound / (both sizes - bound), rounding included.
    """
    allowed = np.empty(len(pairs), bool, like=pairs)
    for start in range(0, len(pairs), BOUNDS_AT_ONCE):
        some = pairs[start : start + BOUNDS_AT_ONCE]
        first, second = some[:, 0], some[:, 1]
        if bitmaps is None:
            bound = np.minimum(sizes[first], sizes[second])
        else:
            bound = ops.overlap_bounds(some, bitmaps, sizes)
        # NumPy adds and subtracts in place: arrays with names would need new memory for each result.
        both = sizes[first] + sizes[second] - bound
        allowed[start : start + BOUNDS_AT_ONCE] = ratio(bound, both) >= threshold
    return allowed


# --- tiles


def order_by_tile(pairs: Array, text_sizes: Array, sizes: Sizes, ops: Backend) -> tuple[Array, list[tuple[int, int]]]:
    """The order int64 [m] of pairs by the tiles of their places, and each tile's [start, stop) in it.

    Components stay whole where they fit, in the order of their first place.
    """
    order = np.arange(len(pairs), like=pairs)
    if len(pairs) == 0:
        return order, []
    if int(text_sizes.sum()) < sizes.tile:
        return order, [(0, len(pairs))]
    is_read = np.zeros(len(text_sizes), bool, like=pairs)  # documents of large buckets alone take no room in a tile
    is_read[pairs] = True
    component = ops.components(len(text_sizes), pairs)
    by_component = radix_order(component, len(component))
    read = np.where(is_read, text_sizes, 0)[by_component]
    begins = np.cumsum(read) - read
    is_first = first_of_runs(component[by_component])
    component_start = begins[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
    # A component goes into the tile where it begins. If it is larger than a tile, it goes into the next tiles, too. A
    # document that is larger than a tile has its own: all pairs of a span have it, and read it together.
    inside = (begins - component_start) // sizes.largest_tile
    tiles = np.empty_like(by_component)
    opens = first_of_runs(component_start // sizes.tile) | first_of_runs(inside) | (read > sizes.largest_tile)
    tiles[by_component] = np.cumsum(opens) - 1
    first, second = tiles[pairs[:, 0]], tiles[pairs[:, 1]]
    both = np.minimum(first, second) << 32 | np.maximum(first, second) if bool((first != second).any()) else first
    order = radix_order(both, int(both.max()) + 1)
    starts = ops.asnumpy(np.flatnonzero(first_of_runs(both[order])))
    return order, list(pairwise([*starts.tolist(), len(pairs)]))
