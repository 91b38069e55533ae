"""Rows of fingerprints, and pairs of rows: by `numpy.unique`, Python's sets and integers, and counts one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from operator import xor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpulsh.arrays import Fingerprints, Numbers, Rows, Words
from gpulsh.backends.protocol import GOLDEN
from gpulsh.backends.reference.hashing import mix64


def rows_of(rows: Rows) -> list[np.ndarray]:
    """Each row as its own array."""
    return [rows.values[start:stop] for start, stop in pairwise(rows.offset.tolist())]


def from_rows(rows: Iterable[ArrayLike]) -> Fingerprints:
    """Rows laid end to end."""
    arrays = [np.asarray(row, np.uint64) for row in rows]
    offset = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
    return Fingerprints(np.concatenate([np.empty(0, np.uint64), *arrays]), offset)


def labelled(fingerprints: Fingerprints) -> Fingerprints:
    return from_rows(_labelled(row.tolist()) for row in rows_of(fingerprints))


def _labelled(row: list[int]) -> list[int]:
    seen = Counter[int]()
    found = []
    for x in row:
        found.append(mix64(x + seen[x] * GOLDEN) if seen[x] else x)
        seen[x] += 1
    return found


def unique(fingerprints: Fingerprints) -> Fingerprints:
    return from_rows(map(np.unique, rows_of(fingerprints)))


def winnow(fingerprints: Fingerprints, size: int) -> Numbers:
    found = set()
    for row, start in zip(rows_of(fingerprints), fingerprints.offset.tolist(), strict=False):
        values = row.tolist()
        for first in range(len(values) - size + 1):
            window = values[first : first + size][::-1]  # so that `index` finds the last of equal minima
            found.add(start + first + size - 1 - window.index(min(window)))
    return np.array(sorted(found), np.int64)


def intersect(pairs: Numbers, fingerprints: Fingerprints) -> tuple[Numbers, Numbers]:
    sets = [set(row.tolist()) for row in rows_of(fingerprints)]
    both = [len(sets[i] & sets[j]) for i, j in pairs.tolist()]
    either = [len(sets[i] | sets[j]) for i, j in pairs.tolist()]
    return np.array(both, np.int64), np.array(either, np.int64)


def bitmaps(fingerprints: Fingerprints, words: int = 16) -> Words:
    shift = 64 - (64 * words).bit_length() + 1
    rows = [reduce(xor, (1 << (value >> shift) for value in row.tolist()), 0) for row in rows_of(fingerprints)]
    split = [[row >> 64 * word & (1 << 64) - 1 for word in range(words)] for row in rows]
    return np.array(split, np.uint64).reshape(len(rows), words)


def overlap_bounds(pairs: Numbers, bitmaps: Words, sizes: Numbers) -> Numbers:
    rows = [sum(word << 64 * place for place, word in enumerate(row)) for row in bitmaps.tolist()]
    size = sizes.tolist()
    bounds = [
        min(size[i], size[j], (size[i] + size[j] - (rows[i] ^ rows[j]).bit_count()) // 2) for i, j in pairs.tolist()
    ]
    return np.array(bounds, np.int64)


def frequencies(fingerprints: Fingerprints, counts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    totals = counts.tolist()
    for row in rows_of(fingerprints):
        for value in row.tolist():
            totals[_slot(value, len(counts))] += 1
    return np.array([min(total, 255) for total in totals], np.uint8)


def prefixes(fingerprints: Fingerprints, counts: NDArray[np.uint8], lengths: Numbers, rare: int = 0) -> Fingerprints:
    chosen = []
    for row, length in zip(rows_of(fingerprints), lengths.tolist(), strict=True):
        ordered = sorted((int(counts[_slot(value, len(counts))]), value) for value in row.tolist())
        length = max(length, sum(count < rare for count, _ in ordered))
        chosen.append(sorted(value for count, value in ordered[:length] if count > 1))
    return from_rows(chosen)


def _slot(value: int, slots: int) -> int:
    return value >> (64 - (slots.bit_length() - 1))


def simhash(fingerprints: Fingerprints, keys: Words, weights: Numbers | None = None) -> Words:
    bits = np.zeros((len(fingerprints), len(keys)), np.uint64)
    weights = np.ones(len(fingerprints.values), np.int64) if weights is None else weights
    for row, found in enumerate(bits):
        here = slice(fingerprints.offset[row], fingerprints.offset[row + 1])
        weighed = list(zip(fingerprints.values[here].tolist(), weights[here].tolist(), strict=True))
        for word, key in enumerate(keys.tolist()):
            hashes = [(mix64(value ^ key), weight) for value, weight in weighed]
            sums = [sum(weight if hash_ >> bit & 1 else -weight for hash_, weight in hashes) for bit in range(64)]
            found[word] = sum(1 << bit for bit, total in enumerate(sums) if total > 0)
    return bits
