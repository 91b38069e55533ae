"""Finds documents that may contain a share of later ones, by an exact prefix filter on one side only.

A document that contains a share t of a set A has one of any |A| - ceil(t |A|) + 1 elements of A (prefix filter:
Chaudhuri, Ganti, Kaushik 2006). The filter takes A's rarest, and looks up all elements of every other document among
them. Containment bounds no size from above, unlike Jaccard similarity, and a sketch of fixed length would miss a short
document within a long one.

Runs over files and indexes join their own tables by `Owners`, too. Near-copies of one page meet in all pairs over every
prefix shingle, so time grows with the square of their number. Where there are thousands, run by Jaccard similarity
first, which compares with kept documents only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend, least_share
from gpulsh.decide.readable import Readable, in_runs
from gpulsh.lsh.pairs import packed, unpacked
from gpulsh.ragged import cuts, first_of_runs, found_in, offsets, ranges, sorted_distinct

SHINGLE_BYTES = 8  # of text, or fewer, for a slot of the table of frequencies
FEWEST_BITS, MOST_BITS = 10, 28
LARGEST_JOIN = 1 << 20  # (fingerprint, pair) rows in memory together


def containing_pairs(texts: Readable, threshold: float, ops: Backend, *, either: bool = False) -> Numbers:
    """int64 [m, 2], lexicographic and unique: places (i, j), i < j, where text i may contain `threshold` of text j.

    With `either` also those where text j may contain `threshold` of text i. Places are in decision order; no text is
    empty.
    """
    text_sizes, at_once = ops.asnumpy(texts.text_sizes()), ops.sizes().tile
    every = np.arange(len(text_sizes))
    # Counts of each slot of shingles: any counts give an exact join, good ones a fast one.
    bits = int(np.clip(int(text_sizes.sum() // SHINGLE_BYTES).bit_length(), FEWEST_BITS, MOST_BITS))
    counts = ops.asarray(np.zeros(1 << bits, np.uint8))
    for start, stop in cuts(offsets(text_sizes), at_once):
        counts = texts.frequencies(every[start:stop], counts)
    share = least_share(threshold)
    owners, owned, sizes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)], np.zeros(len(every), np.int64)
    for places, (prefixes, numbers) in in_runs(
        every, text_sizes, at_once, lambda some: texts.prefixes(some, counts, rare=0, share=share)
    ):
        sizes[places] = ops.asnumpy(numbers)
        owners.append(np.repeat(places, ops.asnumpy(prefixes.lengths)))
        owned.append(ops.asnumpy(prefixes.values))
    owned_by = Owners(np.concatenate(owned), np.concatenate(owners))
    found = [np.empty(0, np.uint64)]
    for places, rows in in_runs(every, text_sizes, at_once, texts.fingerprints):
        holders = np.repeat(places, ops.asnumpy(rows.lengths))
        for holder, owner in owned_by.met_by(ops.asnumpy(rows.values), holders):
            may = (holder != owner if either else holder < owner) & (sizes[holder] >= share * sizes[owner])
            pairs = np.sort(np.stack([holder[may], owner[may]], axis=1), axis=1)
            found.append(sorted_distinct(packed(*pairs.T)))
    every_pair: Numbers = unpacked(sorted_distinct(np.concatenate(found)))
    return every_pair


class Owners:
    """The owners of each prefix fingerprint; `known` are the distinct fingerprints, ascending."""

    def __init__(self, fingerprints: NDArray[np.uint64], owners: Numbers) -> None:
        order = np.argsort(fingerprints, kind="stable")
        ordered = fingerprints[order]
        begins = np.flatnonzero(first_of_runs(ordered))
        self.known, self._offset, self._owners = ordered[begins], np.append(begins, len(ordered)), owners[order]

    def met_by(self, fingerprints: NDArray[np.uint64], holders: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
        """Pairs (holder, owner), some at a time, of each holder [h] of `fingerprints` [h] with every owner."""
        met, slots = found_in(self.known, fingerprints)
        holders = holders[met]
        begin, counts = self._offset[slots], self._offset[slots + 1] - self._offset[slots]
        for start, stop in cuts(offsets(counts), LARGEST_JOIN):
            some = counts[start:stop]
            yield np.repeat(holders[start:stop], some), self._owners[ranges(begin[start:stop], some)]
