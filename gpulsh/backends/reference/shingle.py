"""shingles, shingle, shingle_part and exact_hashes: slices of a document's tokens, hashed by the definition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch, Tokens
from gpulsh.backends.reference.hashing import exact_hash, packed_token, shingle_hash
from gpulsh.backends.reference.tokens import documents, tokens
from gpulsh.backends.reference.unique import from_rows, rows_of
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys


def shingles(tokens: Tokens, size: int, keys: EvidenceKeys | None = None) -> Fingerprints:
    return from_rows(_shingles(row.tolist(), size, keys) for row in rows_of(tokens))


def shingle(text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
    return shingles(tokens(text, shingling.unit, keys), shingling.size, keys)


def shingle_part(
    text: TextBatch, shingling: Shingling, part: int, parts: int, keys: EvidenceKeys | None = None
) -> Fingerprints:
    rows = [sorted(set(row.tolist())) for row in rows_of(shingle(text, shingling, keys))]
    return from_rows([x for x in row if (x * parts) >> 64 == part] for row in rows)


def exact_hashes(text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> NDArray[np.uint64]:
    packed = ([packed_token(token, keys) for token in document] for document in documents(text, shingling.unit))
    return np.array([exact_hash(document, keys) for document in packed], np.uint64).reshape(len(text), 2)


def _shingles(document: list[int], size: int, keys: EvidenceKeys | None) -> list[int]:
    if not document:
        return []
    return [shingle_hash(document[i : i + size], keys) for i in range(max(len(document) - size, 0) + 1)]
