"""Signatures to components: band_digests, collisions, candidates, components, with dictionaries and sets of Python."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Numbers, Words
from gpulsh.backends.protocol import GOLDEN, INSTEAD_OF_NO_DIGEST, NO_DIGEST, STREAM_BAND
from gpulsh.backends.reference.hashing import key, mix64
from gpulsh.params import BandShape


def band_digests(signatures: NDArray[np.unsignedinteger], shape: BandShape) -> Words:
    digests = np.full((len(signatures), shape.bands), NO_DIGEST, np.uint64)
    no_value = np.iinfo(signatures.dtype).max
    for signature, row in zip(signatures.tolist(), digests, strict=True):
        if any(value != no_value for value in signature):
            for band in range(shape.bands):
                values = signature[band * shape.rows : (band + 1) * shape.rows]
                total = sum(key(STREAM_BAND, place) * value for place, value in enumerate(values))
                digest = mix64(total + (band + 1) * GOLDEN)
                row[band] = INSTEAD_OF_NO_DIGEST if digest == NO_DIGEST else digest
    return digests


def collisions(digests: Words, ids: Numbers) -> Buckets:
    members: dict[int, list[int]] = defaultdict(list)
    for digest, document in zip(digests.tolist(), ids.tolist(), strict=True):
        if digest != NO_DIGEST:
            members[digest].append(document)
    buckets = [sorted(members[digest]) for digest in sorted(members) if len(members[digest]) > 1]
    offset = np.cumsum([0, *map(len, buckets)], dtype=np.int64)
    return Buckets(np.array([document for bucket in buckets for document in bucket], np.int64), offset)


def candidates(buckets: Buckets, first: tuple[int, int] | None = None) -> Numbers:
    ids, offset = buckets.ids.tolist(), buckets.offset.tolist()
    pairs = {pair for start, stop in pairwise(offset) for pair in combinations(sorted(set(ids[start:stop])), 2)}
    if first is not None:
        pairs = {(i, j) for i, j in pairs if first[0] <= i < first[1]}
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def components(count: int, pairs: Numbers) -> Numbers:
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for i, j in pairs.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    labels = [-1] * count
    for seed in range(count):  # ascending, so that the first to reach a component is its smallest id
        if labels[seed] >= 0:
            continue
        labels[seed] = seed
        reached = [seed]
        while reached:
            for neighbour in neighbours[reached.pop()]:
                if labels[neighbour] < 0:
                    labels[neighbour] = seed
                    reached.append(neighbour)
    return np.array(labels, np.int64)
