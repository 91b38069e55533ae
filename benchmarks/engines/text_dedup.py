"""text-dedup: pure Python over bitarray, a bucket for each way to choose the blocks that are alike.

Its dependencies conflict with the packages of the other engines, but few are needed: ci/bench installs it without.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from bitarray import frozenbitarray
from numpy.typing import NDArray
from text_dedup.simhash import _create_permutations, _hamming_distance, embed_func
from text_dedup.utils import xxh3_64_digest

from benchmarks.engines.bits import BitsEngine

BLOCKS = 4  # as it has it by default, for a distance of 3


class TextDedup(BitsEngine):
    name = "text-dedup"
    note = "`embed_func`, and the loop of its `main` over buckets, with its permutations and distance"
    does = ("near_pairs", "text_to_bits")

    def text_to_bits(self, texts: list[str], size: int) -> list[dict[str, Any]]:
        return [embed_func(t, i, ngram=size, permutations=[], hash_func=xxh3_64_digest) for i, t in enumerate(texts)]

    def signatures(self, words: NDArray[np.uint64]) -> list[frozenbitarray]:
        return [frozenbitarray(buffer=int(word).to_bytes(8, "big")) for word in words]

    def near_pairs(self, signatures: list[frozenbitarray], distance: int) -> NDArray[np.int64]:
        permutations = _create_permutations(64, k=distance, b=BLOCKS)
        buckets: dict[tuple[bytes, bytes], list[tuple[int, frozenbitarray]]] = defaultdict(list)
        found = []
        for i, signature in enumerate(signatures):
            neighbors = set()
            for permutation in permutations:
                permuted = permutation.permute(signature) & permutation.search_mask
                bucket = buckets[permutation.search_mask.tobytes(), permuted.tobytes()]
                for j, other in bucket:
                    if j not in neighbors and _hamming_distance(signature, other) <= distance:
                        neighbors.add(j)
                bucket.append((i, signature))
            found += [(j, i) for j in neighbors if j < i]  # itself, too, where two of its blocks are alike
        return np.array(found, np.int64).reshape(-1, 2)
