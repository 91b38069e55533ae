"""shingle and exact_hashes."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.reference.hashing import exact_hash, shingle_hash, token_hash
from gpulsh.backends.reference.tokens import tokens
from gpulsh.params import Shingling, Unit


def shingle(text: TextBatch, shingling: Shingling) -> Fingerprints:
    rows = [_shingles(document, shingling.size) for document in _token_hashes(text, shingling.unit)]
    offset = [0, *accumulate(map(len, rows))]
    return Fingerprints(np.array([value for row in rows for value in row], np.uint64), np.array(offset, np.int64))


def exact_hashes(text: TextBatch, shingling: Shingling) -> NDArray[np.uint64]:
    hashes = [exact_hash(document) for document in _token_hashes(text, shingling.unit)]
    return np.array(hashes, np.uint64).reshape(len(text), 2)


def _token_hashes(text: TextBatch, unit: Unit) -> list[list[int]]:
    bounds = text.offset.tolist()
    documents = [text.values[start:stop].tobytes() for start, stop in pairwise(bounds)]
    return [[token_hash(token) for token in tokens(document, unit)] for document in documents]


def _shingles(document: list[int], size: int) -> list[int]:
    if not document:
        return []
    return [shingle_hash(document[i : i + size]) for i in range(max(len(document) - size, 0) + 1)]
