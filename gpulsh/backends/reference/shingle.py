"""shingle and exact_hashes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.reference.hashing import exact_hash, packed_token, shingle_hash, token_hash
from gpulsh.backends.reference.tokens import tokens
from gpulsh.params import Shingling, Unit
from gpulsh.secret import EvidenceKeys


def shingle(text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
    hashed = ([token_hash(token, keys) for token in document] for document in _documents(text, shingling.unit))
    rows = [_shingles(document, shingling.size, keys) for document in hashed]
    offset = [0, *accumulate(map(len, rows))]
    return Fingerprints(np.array([value for row in rows for value in row], np.uint64), np.array(offset, np.int64))


def exact_hashes(text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> NDArray[np.uint64]:
    packed = ([packed_token(token, keys) for token in document] for document in _documents(text, shingling.unit))
    return np.array([exact_hash(document, keys) for document in packed], np.uint64).reshape(len(text), 2)


def _documents(text: TextBatch, unit: Unit) -> Iterator[list[list[int]]]:
    """The tokens of each document."""
    return (tokens(text.values[start:stop].tobytes(), unit) for start, stop in pairwise(text.offset.tolist()))


def _shingles(document: list[int], size: int, keys: EvidenceKeys | None) -> list[int]:
    if not document:
        return []
    return [shingle_hash(document[i : i + size], keys) for i in range(max(len(document) - size, 0) + 1)]
