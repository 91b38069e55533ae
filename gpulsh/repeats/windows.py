"""Windows that repeat: samples propose where, fingerprints propose which, keyed fingerprints prove it.

A window is N consecutive tokens of one document. To hash all windows of a corpus in which few repeat would cost most of
the time and memory. So runs of about N / 3 tokens are hashed first, and of these each window has one as its sample: the
one with the least hash, the last of equal ones (winnowing: Schleimer, Wilkerson, Aiken 2003). Equal windows have equal
samples, and adjacent windows mostly share one, so samples are few. Only windows near a sample that occurs again are
hashed whole, twice: in 10^10 windows some 64-bit hashes of different windows are equal, but no two pairs of independent
hashes are. One of the two, and the hashes of tokens, have secret keys, so that nobody can write such windows.

The steps, each on the arrays of a batch, so that a driver may keep them in memory or in files:

    sample_windows   texts -> samples
    met_again        all samples -> places of those that occur again
    hash_windows     texts, places -> windows near these places
    find_repeats     all windows -> those that occur more than once, with their first occurrence

A *place* is the number of a token among those of all documents. Each document takes more places than it has tokens, so
the tokens of two documents are never neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Array, Fingerprints, TextBatch, Tokens
from gpulsh.backends.protocol import NO_DIGEST, Backend
from gpulsh.lsh.collisions import bucket_of_member
from gpulsh.params import Shingling
from gpulsh.ragged import first_of_runs, offsets, ranges
from gpulsh.secret import LONGEST_SHINGLE, EvidenceKeys

MOST_SAMPLED = 16  # tokens of a sample


class Samples(NamedTuple):
    """Samples of a batch: of every window at least one."""

    values: Array  # uint64 [s]: public hashes
    place: Array  # int64 [s], ascending: the place of the first token of each; the batch begins at place 0
    lengths: Array  # int64 [n]: the places that each document takes


class Windows(NamedTuple):
    """Windows that may repeat."""

    proposed: Array  # uint64 [m]: public hashes of tokens with secret hashes
    proven: Array  # uint64 [m]: secret hashes
    place: Array  # int64 [m], ascending: the place of the first token of each


class Repeats(NamedTuple):
    """Windows that occur more than once."""

    place: Array  # int64 [r], ascending
    first: Array  # int64 [r]: the place of the first equal window; its own place if it is the first
    occurrences: Array  # int64 [r]: how many windows are equal to it, itself included


def sample_size(tokens: int) -> int:
    """Tokens of a sample of windows of `tokens` tokens."""
    return min(max(tokens // 3, 1), MOST_SAMPLED)


def sample_windows(ops: Backend, text: TextBatch, reading: Shingling, tokens: int) -> Samples:
    """Samples of all windows of a batch. The size of `reading` does not matter."""
    size = sample_size(tokens)
    runs = ops.shingle(text, replace(reading, size=size))
    with ops.here():
        chosen = ops.winnow(runs, tokens - size + 1)
        row = np.searchsorted(runs.offset, chosen, side="right") - 1
        place = chosen - runs.offset[:1] + row * size
        return Samples(runs.values[chosen], place, runs.lengths + size)


def met_again(ops: Backend, values: Array, place: Array) -> Array:
    """int64 [c], ascending: the places of the samples uint64 `values` [s] that occur more than once."""
    with ops.here():
        return np.sort(ops.collisions(_digests(values), place).ids)


def hash_windows(
    ops: Backend, text: TextBatch, base: Array, met: Array, reading: Shingling, tokens: int, keys: EvidenceKeys
) -> Windows:
    """The windows that hold a sample at one of the places `met` int64 [c], ascending, all in documents of the batch.

    `base` int64 [n], ascending, is the place of the first token of each document.
    """
    found = ops.tokens(text, reading, keys)
    with ops.here():
        row = np.searchsorted(base, met, side="right") - 1
        shift = found.offset[row] - base[row]
        begin = np.maximum(met + shift - (tokens - sample_size(tokens)), found.offset[row])
        end = np.minimum(met + shift, found.offset[row + 1] - tokens) + 1
        fresh = np.ones_like(row, bool)
        fresh[1:] = (begin[1:] > end[:-1]) | first_of_runs(row)[1:]
        begin, shift, end = begin[fresh], shift[fresh], end[np.append(fresh[1:], fresh[:1])]
        windows = end - begin
        runs = Tokens(found.values[ranges(begin, windows + tokens - 1)], offsets(windows + tokens - 1))
        proposed, proven = _window_hashes(ops, runs, tokens, None), _window_hashes(ops, runs, tokens, keys)
        return Windows(_digests(proposed), proven, ranges(begin - shift, windows))


def _window_hashes(ops: Backend, tokens: Tokens, size: int, keys: EvidenceKeys | None) -> Array:
    """The hashes of all windows of rows of `size` tokens or more. Shingles of shingles are as good for long windows."""
    rows, covered = Fingerprints(tokens.values, tokens.offset), 1
    while True:
        step = min(size - covered + 1, LONGEST_SHINGLE)
        rows = ops.shingles(Tokens(rows.values, rows.offset), step, keys)
        covered += step - 1
        if covered == size:
            return rows.values


def _digests(values: Array) -> Array:
    """Hashes for `collisions`, which keeps one number for *no digest*; another hash may become equal."""
    return np.minimum(values, np.uint64(NO_DIGEST - 1))


def find_repeats(ops: Backend, windows: Windows) -> Repeats:
    """The windows that occur more than once among `windows`."""
    with ops.here():
        buckets = ops.collisions(windows.proposed, np.arange(len(windows.place), dtype=np.int64, like=windows.place))
        ids, offset = buckets.ids, buckets.offset
        group, proof = bucket_of_member(buckets), windows.proven[ids]
        if bool((proof != proof[offset[:-1]][group]).any()):  # different windows have the same public hash
            order = np.argsort(proof, kind="stable")
            order = order[np.argsort(group[order], kind="stable")]
            ids, group, proof = ids[order], group[order], proof[order]
            starts = np.flatnonzero(first_of_runs(group) | first_of_runs(proof))
            offset = np.append(starts, np.full(1, len(ids), np.int64, like=starts))
            group = np.cumsum(first_of_runs(group) | first_of_runs(proof)) - 1
        count = offset[1:] - offset[:-1]
        first, occurrences = np.full_like(windows.place, -1), np.empty_like(windows.place)
        first[ids], occurrences[ids] = ids[offset[:-1]][group], count[group]
        occurrences[first < 0] = 1
        kept = np.flatnonzero(occurrences > 1)
        return Repeats(windows.place[kept], windows.place[first[kept]], occurrences[kept])
