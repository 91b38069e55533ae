"""Compares documents, read again from their texts, as `verify` says, with as few of them as possible in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.parts import halves_of_numbers, in_fitting_halves, in_fitting_parts
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.bounds import bounds_allow, sizes_allow, words_for
from gpulsh.decide.compare.measures import Measure
from gpulsh.decide.compare.readable import TEXT_OF_A_SHINGLE, Readable, row_sizes
from gpulsh.decide.compare.tiles import bytes_read, grouped_by_tile
from gpulsh.errors import DeviceMemoryError
from gpulsh.lsh.pairs import chosen_pairs, renumbered
from gpulsh.ragged import cuts, offsets
from gpulsh.stats.stages import Advance, untold

REREAD = 1.5  # times the texts would be shingled, over all tiles, before a pass to make bitmaps pays
SAMPLE = 512  # pairs tried before that pass
BITMAPS_PAY = 4  # pairs a document of those in hand from which bitmaps of all of them pay
PAIRS_AT_ONCE = 1 << 18  # compared before it is told how many are done
NONE = np.empty(0, np.int64)


def compare(
    pairs: Numbers,
    texts: Readable,
    measure: Measure,
    threshold: float,
    ops: Backend,
    advance: Advance = untold,
    drawn: Numbers = NONE,
) -> NDArray[np.float64]:
    """Similarity float64 [m] of `pairs` [m, 2] of places; -1 where a bound rules out `threshold`, unless it is `drawn`.

    Places are brought together by connected component, so that each is shingled once unless its component is larger
    than a tile. Where that would mean to shingle texts many times, one pass over them first makes a bitmap of each, and
    only the pairs whose bitmaps allow the threshold are compared.
    """
    similarity, text_sizes = np.full(len(pairs), -1.0), texts.text_sizes()
    is_drawn = np.zeros(len(pairs), bool)
    is_drawn[drawn] = True
    groups, across = grouped_by_tile(pairs, text_sizes, ops)
    reads_again = across and bytes_read(pairs, groups, text_sizes) > REREAD * int(text_sizes.sum())
    if reads_again and _bitmaps_pay(pairs, texts, text_sizes, threshold, ops):
        left = np.flatnonzero(is_drawn | _bitmaps_allow(pairs, texts, text_sizes, threshold, ops))
        advance(len(pairs) - len(left))
        groups = [left[group] for group in grouped_by_tile(chosen_pairs(pairs, left), text_sizes, ops)[0]]
    telling = Lock()

    def tell(done: int) -> None:
        with telling:
            advance(done)

    def measured(lane: Backend, group: Numbers) -> list[tuple[Numbers, NDArray[np.float64]]]:
        tile = _Tile(pairs, is_drawn, texts.on(lane), text_sizes, measure, threshold, lane, tell)
        return list(in_fitting_halves(group, tile.whole, halves_of_numbers, tile.by_range))

    for parts in ops.pipelined_map(groups, measured):
        for part, values in parts:
            similarity[part] = values
    return similarity


@dataclass(frozen=True)
class _Tile:
    """Pairs whose documents are read together, by their numbers among all; tells of what is done."""

    pairs: Numbers
    is_drawn: NDArray[np.bool_]  # of each pair whether it is measured whatever bounds say
    texts: Readable
    text_sizes: Numbers
    measure: Measure
    threshold: float
    ops: Backend
    tell: Advance

    def whole(self, numbers: Numbers) -> NDArray[np.float64]:
        """The similarity of some; DeviceMemoryError where memory does not hold all their fingerprints."""
        places, rows = renumbered(chosen_pairs(self.pairs, numbers), len(self.text_sizes))
        if self._ranges(places) > 1:
            raise DeviceMemoryError("the texts of a tile are more than the budget allows")
        ops, similarity, told = self.ops, np.full(len(rows), -1.0), 0
        try:
            fingerprints = self.texts.fingerprints(places)
            sizes = row_sizes(fingerprints, ops)
            bitmaps = None
            if self.threshold > 0 and len(rows) > BITMAPS_PAY * len(places):
                bitmaps = ops.bitmaps(fingerprints, words_for(sizes, len(sizes), self.threshold))
            at_once = PAIRS_AT_ONCE if self.threshold > 0 else max(len(rows), 1)  # a signature is made for each call
            for start in range(0, len(rows), at_once):
                some = slice(start, min(start + at_once, len(rows)))
                if bitmaps is None:
                    possible = sizes_allow(sizes[rows[some, 0]], sizes[rows[some, 1]], self.threshold)
                else:
                    possible = bounds_allow(rows[some], bitmaps, fingerprints.lengths, self.threshold, ops)
                chosen = start + np.flatnonzero(possible | self.is_drawn[numbers[some]])
                similarity[chosen] = self.measure(chosen_pairs(rows, chosen), [fingerprints], ops)
                self.tell(some.stop - start)
                told = some.stop
        except DeviceMemoryError:
            self.tell(-told)
            raise
        return similarity

    def by_range(self, numbers: Numbers) -> NDArray[np.float64]:
        """Measure a pair that memory does not hold, in ranges of fingerprints."""
        places, rows = renumbered(chosen_pairs(self.pairs, numbers), len(self.text_sizes))
        found, _ = in_fitting_parts(
            lambda parts: self.measure(rows, self.texts.fingerprints_by_range(places, parts), self.ops),
            max(2, self._ranges(places)),
        )
        self.tell(1)
        return found

    def _ranges(self, places: Numbers) -> int:
        return _ranges(int(self.text_sizes[places].sum()), self.ops.sizes().whole)


def _ranges(size: int, whole: int | None) -> int:
    """In how many ranges of fingerprints texts of `size` bytes are taken, those of `whole` being taken in one."""
    return max(1, -(-size // whole)) if whole is not None else 1


def _bitmaps_pay(pairs: Numbers, texts: Readable, text_sizes: Numbers, threshold: float, ops: Backend) -> bool:
    """Whether bitmaps rule out most of a few pairs taken at equal steps."""
    few = pairs[:: -(-len(pairs) // SAMPLE)]
    places, rows = renumbered(few, len(text_sizes))
    return bool(_bitmaps_allow(rows, texts.renumbered(places), text_sizes[places], threshold, ops).mean() < 0.5)


def _bitmaps_allow(
    pairs: Numbers, texts: Readable, text_sizes: Numbers, threshold: float, ops: Backend
) -> NDArray[np.bool_]:
    """bool [m]: whether the bitmaps of each pair allow its similarity to reach `threshold`; one pass over the texts."""
    bitmaps, sizes = [], []
    limits = ops.sizes()
    words = words_for(text_sizes // TEXT_OF_A_SHINGLE, len(text_sizes), threshold)
    for start, stop in cuts(offsets(text_sizes), limits.tile):
        # A document beyond a tile may come in ranges of values, and is shingled again for each of them.
        parts = _ranges(int(text_sizes[start:stop].sum()), limits.whole or limits.tile)
        read = partial(_bitmaps_of, np.arange(start, stop), texts, words, ops)
        (bits, counts), _ = in_fitting_parts(read, parts)
        bitmaps.append(bits)
        sizes.append(counts)
    return bounds_allow(pairs, np.concatenate(bitmaps), np.concatenate(sizes), threshold, ops)


def _bitmaps_of(places: Numbers, texts: Readable, words: int, ops: Backend, parts: int) -> tuple[Array, Array]:
    """The bitmaps of documents and how many fingerprints each has, read in ranges of values."""
    found = [texts.fingerprints(places)] if parts <= 1 else texts.fingerprints_by_range(places, parts)
    bits, counts = zip(*((ops.bitmaps(part, words), part.lengths) for part in found), strict=True)
    return reduce(np.bitwise_xor, bits), sum(counts)
