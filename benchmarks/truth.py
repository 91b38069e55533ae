"""The exact answer by brute force, in code that shares nothing with gpulsh: an inverted index over every shingle.

Tokens as the library defines them, from Python's own Unicode tables: each code point folded by itself, maximal runs of
letters, marks and numbers, and the scripts written without spaces one code point a token. Shingles are compared by a
64-bit hash, whose odds of any collision in 2e7 shingles are about 1e-5.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

SEPARATOR, WORD, SINGLE = 0, 1, 2

# Script property Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar. Python has no script table; unassigned code points
# inside a range do no harm, since their category is none of L, M, N.
_SINGLE_RANGES = (
    (0x2E80, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xF900, 0xFAD9), (0x16FE2, 0x16FE3), (0x16FF0, 0x16FF1), (0x20000, 0x3FFFD),
    (0x3041, 0x3096), (0x309D, 0x309F), (0x1B001, 0x1B11F), (0x1B132, 0x1B132), (0x1B150, 0x1B152), (0x1F200, 0x1F200),
    (0x30A1, 0x30FA), (0x30FD, 0x30FF), (0x31F0, 0x31FF), (0x32D0, 0x32FE), (0x3300, 0x3357), (0xFF66, 0xFF6F),
    (0xFF71, 0xFF9D), (0x1AFF0, 0x1AFFE), (0x1B000, 0x1B000), (0x1B120, 0x1B122), (0x1B155, 0x1B155),
    (0x1B164, 0x1B167), (0x0E01, 0x0E3A), (0x0E40, 0x0E5B), (0x0E81, 0x0EDF), (0x1780, 0x17DD), (0x17E0, 0x17E9),
    (0x17F0, 0x17F9), (0x19E0, 0x19FF), (0x1000, 0x109F), (0xA9E0, 0xA9FE), (0xAA60, 0xAA7F), (0x116D0, 0x116E3),
)  # fmt: skip


@functools.cache
def _tables() -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """(folded code point, class) of every code point."""
    folded = np.arange(0x110000, dtype=np.uint32)
    kind = np.zeros(0x110000, dtype=np.uint8)
    for point in range(0x110000):
        char = chr(point)
        if unicodedata.category(char)[0] in "LMN":
            kind[point] = WORD
            for form in (char.casefold(), char.lower()):
                if len(form) == 1:
                    folded[point] = ord(form)
                    break
    for first, last in _SINGLE_RANGES:
        part = kind[first : last + 1]
        part[part == WORD] = SINGLE
    return folded, kind


@numba.njit(cache=True)
def _mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(cache=True)
def _shingle_sets(codes, starts, folded, kind, size, values, offset):  # type: ignore[no-untyped-def]
    golden = np.uint64(0x9E3779B97F4A7C15)
    filled = 0
    tokens = np.empty(np.max(starts[1:] - starts[:-1]) + 1, np.uint64)
    for doc in range(len(starts) - 1):
        count = 0
        inside = False
        h = np.uint64(0)
        for at in range(starts[doc], starts[doc + 1]):
            code = codes[at]
            k = kind[code]
            if inside and k != 1:
                tokens[count] = h
                count += 1
                inside = False
            if k == 2:
                tokens[count] = _mix(np.uint64(folded[code]) + golden)
                count += 1
            elif k == 1:
                h = _mix((h if inside else np.uint64(0)) * golden + np.uint64(folded[code]) + golden)
                inside = True
        if inside:
            tokens[count] = h
            count += 1
        first = filled
        if count > 0:
            width = min(size, count)
            for at in range(count - width + 1):
                h = np.uint64(width)  # a short document's only shingle never equals a full one
                for place in range(width):
                    h = _mix(h * golden + tokens[at + place])
                values[filled] = h
                filled += 1
            row = np.unique(values[first:filled])
            values[first : first + len(row)] = row
            filled = first + len(row)
        offset[doc + 1] = filled
    return filled


def shingle_sets(texts: Sequence[str], size: int = 5) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Sorted distinct shingles of each document: values [nnz] and offset [n + 1]."""
    folded, kind = _tables()
    parts: list[NDArray[np.uint64]] = []
    offsets = [np.zeros(1, np.int64)]
    for low in range(0, len(texts), 4096):
        chunk = texts[low : low + 4096]
        codes = np.frombuffer("".join(chunk).encode("utf-32-le", "surrogatepass"), np.uint32)
        starts = np.concatenate([[0], np.cumsum([len(t) for t in chunk], dtype=np.int64)])
        values = np.empty(len(codes) + 1, np.uint64)
        offset = np.zeros(len(chunk) + 1, np.int64)
        filled = _shingle_sets(codes, starts, folded, kind, size, values, offset)
        parts.append(values[:filled].copy())
        offsets.append(offset[1:] + offsets[-1][-1])
    return np.concatenate([*parts, np.empty(0, np.uint64)]), np.concatenate(offsets)


@numba.njit(cache=True)
def _similar(ids, offset, posting, docs, threshold):  # type: ignore[no-untyped-def]
    n = len(offset) - 1
    shared = np.zeros(n, np.int32)
    touched = np.empty(n, np.int64)
    found = np.empty((1024, 2), np.int64)
    similarity = np.empty(1024, np.float64)
    m = 0
    for j in range(n):
        hit = 0
        for at in range(offset[j], offset[j + 1]):
            s = ids[at]
            for p in range(posting[s], posting[s + 1]):
                i = docs[p]
                if i >= j:
                    break
                if shared[i] == 0:
                    touched[hit] = i
                    hit += 1
                shared[i] += 1
        size_j = offset[j + 1] - offset[j]
        for t in range(hit):
            i = touched[t]
            both = shared[i]
            shared[i] = 0
            value = both / (size_j + offset[i + 1] - offset[i] - both)
            if value >= threshold:
                if m == len(found):
                    more = np.empty((2 * m, 2), np.int64)
                    more[:m] = found
                    found = more
                    longer = np.empty(2 * m, np.float64)
                    longer[:m] = similarity
                    similarity = longer
                found[m, 0] = i
                found[m, 1] = j
                similarity[m] = value
                m += 1
    return found[:m], similarity[:m]


def similar_pairs(
    values: NDArray[np.uint64], offset: NDArray[np.int64], threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All pairs i < j with exact Jaccard >= threshold, and it: every shared shingle of every pair is counted."""
    distinct, ids = np.unique(values, return_inverse=True)
    order = np.argsort(ids, kind="stable")
    docs = np.repeat(np.arange(len(offset) - 1), np.diff(offset))[order]
    posting = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=len(distinct)))])
    pairs, similarity = _similar(ids, offset, posting, docs, threshold)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return pairs[order], similarity[order]


@numba.njit(cache=True)
def jaccard(values, offset, pairs):  # type: ignore[no-untyped-def]
    """Exact Jaccard of the given pairs: float64 [m]; 0 where both are empty."""
    out = np.zeros(len(pairs), np.float64)
    for p in range(len(pairs)):
        x, x_end = offset[pairs[p, 0]], offset[pairs[p, 0] + 1]
        y, y_end = offset[pairs[p, 1]], offset[pairs[p, 1] + 1]
        total = x_end - x + y_end - y
        both = 0
        while x < x_end and y < y_end:
            if values[x] == values[y]:
                both += 1
                x += 1
                y += 1
            elif values[x] < values[y]:
                x += 1
            else:
                y += 1
        if total > 0:
            out[p] = both / (total - both)
    return out


def keep_first(n: int, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The lexicographically first maximal set without duplicates: a document goes when an earlier kept one is alike."""
    keep = np.ones(n, np.bool_)
    for i, j in pairs[np.argsort(pairs[:, 1], kind="stable")].tolist():
        if keep[i]:
            keep[j] = False
    return keep
