"""shingles, shingle, shingle_part and exact_hashes: slices of a document's tokens, hashed by the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch, Tokens
from gpulsh.backends.protocol import GOLDEN
from gpulsh.backends.reference.hashing import (
    exact_hash,
    karp_rabin_hash,
    mix64,
    packed_token,
    rabin_hash,
    shingle_hash,
)
from gpulsh.backends.reference.tokens import documents, word_hashes
from gpulsh.backends.reference.unique import from_rows, rows_of
from gpulsh.params import Hash, Shingling
from gpulsh.secret import EvidenceKeys


def shingles(tokens: Tokens, size: int, keys: EvidenceKeys | None = None) -> Fingerprints:
    return from_rows([shingle_hash(one, keys) for one in _shingles(row.tolist(), size)] for row in rows_of(tokens))


def shingle(text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
    rows = unlabelled(text, shingling, keys)
    return from_rows(map(labelled, rows) if shingling.labels else rows)


def unlabelled(text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> list[list[int]]:
    """The fingerprints of each document before their labels."""
    hashes: dict[Hash, Callable[[list[int]], int]] = {
        "mix64": lambda shingle: shingle_hash(shingle, keys),
        "rabin": rabin_hash,
        "karp_rabin": lambda shingle: karp_rabin_hash(shingle, keys),
    }
    given = [word_hashes(document, shingling, keys) for document in documents(text, shingling)]
    return [list(map(hashes[shingling.hash], _shingles(row, shingling.size))) for row in given]


def labelled(row: list[int]) -> list[int]:
    """Each fingerprint of a document with its label: how many equal ones precede it."""
    seen = Counter[int]()
    found = []
    for x in row:
        found.append(mix64(x + seen[x] * GOLDEN) if seen[x] else x)
        seen[x] += 1
    return found


def shingle_part(
    text: TextBatch, shingling: Shingling, part: int, parts: int, keys: EvidenceKeys | None = None
) -> Fingerprints:
    rows = []
    for row in unlabelled(text, shingling, keys):
        inside = [x for x in row if (x * parts) >> 64 == part]
        rows.append(sorted(set(labelled(inside) if shingling.labels else inside)))
    return from_rows(rows)


def exact_hashes(text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> NDArray[np.uint64]:
    packed = ([packed_token(token, keys) for token in document] for document in documents(text, shingling))
    return np.array([exact_hash(document, keys) for document in packed], np.uint64).reshape(len(text), 2)


def _shingles(document: list[int], size: int) -> list[list[int]]:
    if not document:
        return []
    return [document[i : i + size] for i in range(max(len(document) - size, 0) + 1)]
