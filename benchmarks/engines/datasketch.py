"""datasketch: pure Python over NumPy. Its fastest: `bulk`, the 32-bit affine scheme, xxh32 over bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from datasketch import MinHash, MinHashLSH, MinHashLSHBloom
from numpy.typing import NDArray

from benchmarks.engines.base import BANDING, NUM_PERM, Decision, Engine
from benchmarks.engines.decider import Decider, Texts, rows
from benchmarks.engines.shingles import byte_shingles

FALSE_POSITIVES = 1e-5  # of a band's Bloom filter: as many as its paper takes


def _signatures(texts: Iterable[str]) -> Iterator[MinHash]:
    """The signatures that `MinHash.bulk` puts into a list."""
    shingles = byte_shingles(texts)
    yield from MinHash.generator(shingles, num_perm=NUM_PERM, scheme="affine32", hashfunc=xxhash.xxh32_intdigest)


class Datasketch(Engine):
    name = "datasketch"
    note = "`MinHash.bulk`, `affine32`, xxh32; `MinHashLSH` with gpulsh's banding, a document dropped on any hit"

    def text_to_signature(self, texts: list[str]) -> list[MinHash]:
        return list(_signatures(texts))

    def _lsh(self, threshold: float) -> MinHashLSH:
        return MinHashLSH(num_perm=NUM_PERM, params=BANDING[threshold])

    def signatures_to_pairs(self, signatures: list[MinHash], threshold: float) -> list[list[int]]:
        lsh = self._lsh(threshold)
        found = []
        for i, signature in enumerate(signatures):
            found.append(lsh.query(signature))
            lsh.insert(i, signature, check_duplication=False)
        return found

    def deduplicate(self, texts: Iterable[str], threshold: float) -> list[int]:
        lsh = self._lsh(threshold)
        witness = []
        for i, signature in enumerate(_signatures(texts)):
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


class DatasketchOwnBands(Datasketch):
    name = "datasketch own bands"
    note = "the same with the banding that `MinHashLSH(threshold=...)` chooses: fewer bands, which miss more"

    def _lsh(self, threshold: float) -> MinHashLSH:
        return MinHashLSH(threshold=threshold, num_perm=NUM_PERM)


class DatasketchBloom(Decider):
    name = "datasketch Bloom"
    note = "the same signatures; `MinHashLSHBloom` in memory with gpulsh's banding and 1e-5 false positives a band"

    def keep(self, inputs: Path, threshold: float, scratch: Path) -> NDArray[np.bool_]:
        n = rows(inputs)
        lsh = MinHashLSHBloom(num_perm=NUM_PERM, n=n, fp=FALSE_POSITIVES, params=BANDING[threshold])
        keep = np.zeros(n, bool)
        for i, signature in enumerate(_signatures(Texts(inputs))):
            keep[i] = not lsh.query(signature)
            if keep[i]:
                lsh.insert(signature)
        return keep
