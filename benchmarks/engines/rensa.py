"""rensa: Rust sketches and LSH, token lists from Python. Three of its ways: speed and answers differ by API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash, RMinHashDeduplicator, RMinHashDigestMatrix, RMinHashLSH

from benchmarks.engines.base import EVEN_BANDS, NUM_PERM, Decision, Engine
from benchmarks.engines.shingles import shingles

SEED = 42


def _lsh(threshold: float) -> RMinHashLSH:
    return RMinHashLSH(threshold=threshold, num_perm=NUM_PERM, num_bands=EVEN_BANDS[threshold])


class Rensa(Engine):
    name = "rensa"
    note = "`digest_matrix_from_token_sets`, one-shot duplicate flags of its LSH (flags every member of a group)"

    def text_to_signature(self, texts: Iterable[str]) -> RMinHashDigestMatrix:
        return RMinHash.digest_matrix_from_token_sets(shingles(texts), NUM_PERM, SEED)

    def signatures_to_pairs(self, signatures: RMinHashDigestMatrix, threshold: float) -> list[bool]:
        return _lsh(threshold).query_duplicate_flags_matrix_one_shot(signatures)

    def deduplicate(self, texts: Iterable[str], threshold: float) -> list[bool]:
        return self.signatures_to_pairs(self.text_to_signature(texts), threshold)

    def matrix(self, signatures: RMinHashDigestMatrix) -> NDArray[Any]:
        return np.array(signatures.to_rows())

    def pairs(self, found: list[bool]) -> None:
        return None

    def decision(self, result: list[bool]) -> Decision:
        return Decision(keep=~np.array(result, bool))


class RensaRho(Rensa):
    name = "rensa-rho"
    note = "its rho sketch, which samples token positions, and the same flags"

    def text_to_signature(self, texts: Iterable[str]) -> RMinHashDigestMatrix:
        return RMinHash.digest_matrix_from_token_sets_rho(shingles(texts), NUM_PERM, SEED)


class RensaDeduplicator(Engine):
    name = "rensa-deduplicator"
    note = "`from_token_sets`, `query_all`; `RMinHashDeduplicator` (LSH, then the estimate)"

    def text_to_signature(self, texts: Iterable[str]) -> list[RMinHash]:
        return RMinHash.from_token_sets(shingles(texts), NUM_PERM, SEED)

    def signatures_to_pairs(self, signatures: list[RMinHash], threshold: float) -> list[list[int]]:
        lsh = _lsh(threshold)
        lsh.insert_many(signatures)
        return lsh.query_all(signatures)

    def deduplicate(self, texts: Iterable[str], threshold: float) -> list[bool]:
        kept = RMinHashDeduplicator(
            threshold=threshold, num_perm=NUM_PERM, use_lsh=True, num_bands=EVEN_BANDS[threshold], seed=SEED
        )
        return kept.add_pairs((str(i), tokens) for i, tokens in enumerate(shingles(texts)))

    def matrix(self, signatures: list[RMinHash]) -> NDArray[Any]:
        return np.array([s.digest() for s in signatures])

    def pairs(self, found: list[list[int]]) -> NDArray[np.int64]:
        return np.array([(i, j) for j, like in enumerate(found) for i in like if i < j], np.int64).reshape(-1, 2)

    def decision(self, result: list[bool]) -> Decision:
        return Decision(keep=np.array(result, bool))
