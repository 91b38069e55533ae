"""datasketch: pure Python over NumPy. Its fastest: `bulk`, the 32-bit affine scheme, xxh32 over bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash
from datasketch import MinHash, MinHashLSH
from numpy.typing import NDArray

from benchmarks.engines.base import BANDING, NUM_PERM, Decision, Engine
from benchmarks.engines.shingles import byte_shingles


class Datasketch(Engine):
    name = "datasketch"
    note = "`MinHash.bulk`, `affine32`, xxh32; `MinHashLSH` with gpulsh's banding, a document dropped on any hit"

    def text_to_signature(self, texts: list[str]) -> list[MinHash]:
        return MinHash.bulk(byte_shingles(texts), num_perm=NUM_PERM, scheme="affine32", hashfunc=xxhash.xxh32_intdigest)

    def signatures_to_pairs(self, signatures: list[MinHash], threshold: float) -> list[list[int]]:
        lsh = MinHashLSH(num_perm=NUM_PERM, params=BANDING[threshold])
        found = []
        for i, signature in enumerate(signatures):
            found.append(lsh.query(signature))
            lsh.insert(i, signature, check_duplication=False)
        return found

    def deduplicate(self, texts: list[str], threshold: float) -> list[int]:
        lsh = MinHashLSH(num_perm=NUM_PERM, params=BANDING[threshold])
        kept = MinHash.generator(
            byte_shingles(texts), num_perm=NUM_PERM, scheme="affine32", hashfunc=xxhash.xxh32_intdigest
        )
        witness = []
        for i, signature in enumerate(kept):
            like = lsh.query(signature)
            witness.append(like[0] if like else i)
            if not like:
                lsh.insert(i, signature, check_duplication=False)
        return witness

    def matrix(self, signatures: list[MinHash]) -> NDArray[Any]:
        return np.stack([s.hashvalues for s in signatures])

    def pairs(self, found: list[list[int]]) -> NDArray[np.int64]:
        return np.array([(i, j) for j, like in enumerate(found) for i in like], np.int64).reshape(-1, 2)

    def decision(self, result: list[int]) -> Decision:
        witness = np.array(result, np.int64)
        return Decision(keep=witness == np.arange(len(witness)), witness=witness)
