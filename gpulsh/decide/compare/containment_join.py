"""Which documents may contain a share of which later ones: an exact prefix filter of one side, by all of the other.

Whoever contains a share t of a set A has one of any |A| - ceil(t |A|) + 1 of its elements (prefix filter: Chaudhuri,
Ganti, Kaushik 2006). These are taken to be A's rarest; of every other document all elements are looked up among them.
Unlike Jaccard similarity, containment bounds no size from above, and a sketch of fixed length would miss a short
document within a long one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.prefix_lengths import least_share
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.comparison import Readable, in_runs
from gpulsh.lsh.pairs import distinct, packed, unpacked
from gpulsh.ragged import cuts, offsets, within_runs

SHINGLE_BYTES = 8  # of text, or fewer, for a slot of the table of frequencies
FEWEST_BITS, MOST_BITS = 10, 28
LARGEST_JOIN = 1 << 22  # (prefix shingle, pair) rows looked at together


def containing_pairs(texts: Readable, threshold: float, ops: Backend) -> Numbers:
    """int64 [m, 2], lexicographic and unique: places (i, j), i < j, of all texts i that may contain `threshold` of j.

    Places are in decision order; no text is empty.
    """
    text_sizes, at_once = texts.sizes(), ops.sizes().tile
    every = np.arange(len(text_sizes))
    counts = _frequencies(texts, text_sizes, ops)
    share = least_share(threshold)
    owners, owned, sizes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)], np.zeros(len(every), np.int64)
    for places, (prefixes, numbers) in in_runs(
        every, text_sizes, at_once, lambda some: texts.prefixes(some, counts, rare=0, share=share)
    ):
        sizes[places] = ops.asnumpy(numbers)
        owners.append(np.repeat(places, np.diff(ops.asnumpy(prefixes.offset))))
        owned.append(ops.asnumpy(prefixes.values))
    shingles, slot = np.unique(np.concatenate(owned), return_inverse=True)
    by_slot = np.argsort(slot, kind="stable")
    owners_of, owner_offset = np.concatenate(owners)[by_slot], offsets(np.bincount(slot, minlength=len(shingles)))

    found = [np.empty(0, np.uint64)]
    for places, rows in in_runs(every, text_sizes, at_once, texts.fingerprints):
        values = ops.asnumpy(rows.values)
        at = np.minimum(np.searchsorted(shingles, values), max(len(shingles) - 1, 0))
        known = np.flatnonzero(shingles[at] == values) if len(shingles) else np.empty(0, np.int64)
        holders = np.repeat(places, np.diff(ops.asnumpy(rows.offset)))[known]
        for pairs in _joined(holders, at[known], owners_of, owner_offset):
            earlier, later = pairs
            may = (earlier < later) & (sizes[earlier] >= share * sizes[later])
            found.append(distinct(packed(earlier[may], later[may])))
    return unpacked(distinct(np.concatenate(found)))


def _joined(holders: Numbers, slots: Numbers, owners: Numbers, offset: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Every holder [h] of a slot with every owner of it, some at a time."""
    counts = offset[slots + 1] - offset[slots]
    for start, stop in cuts(offsets(counts), LARGEST_JOIN):
        some = counts[start:stop]
        which = np.repeat(offset[slots[start:stop]], some) + within_runs(some)
        yield np.repeat(holders[start:stop], some), owners[which]


def _frequencies(texts: Readable, text_sizes: Numbers, ops: Backend) -> Array:
    """How often each slot of shingles occurs: any counts give an exact join, good ones a fast one."""
    bits = int(np.clip(int(text_sizes.sum() // SHINGLE_BYTES).bit_length(), FEWEST_BITS, MOST_BITS))
    counts = ops.asarray(np.zeros(1 << bits, np.uint8))
    for start, stop in cuts(offsets(text_sizes), ops.sizes().tile):
        counts = texts.frequencies(np.arange(start, stop), counts)
    return counts
