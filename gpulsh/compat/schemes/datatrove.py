"""`gpulsh.compat.DatatroveMinHash`: the signatures of datatrove's `MinhashDedupSignature`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpulsh.compat.schemes.draws import MAX_SEED, MERSENNE_61, at_once
from gpulsh.compat.schemes.hashes import Hash, Sha1, xxhash_function
from gpulsh.compat.schemes.token_sketch import TokenSketch, runs
from gpulsh.params import GivenFamily, check_choice, check_integer, set_integer


@dataclass(frozen=True, kw_only=True)
class DatatroveMinHash(TokenSketch):
    """What datatrove makes of a document's words: the values of its buckets, one after another.

    `num_perm` is its `num_buckets * hashes_per_bucket`, 14 * 8 by default, `hash` and `precision` those of its
    `HashConfig`. Its words come from `simplify_text` and a tokenizer of the document's language; they are given here,
    in order. Runs of `n_grams` words, joined by spaces, are hashed to x, and a value is (a * x + b mod 2^64) mod
    2^61 - 1, of precision 32 its lower 32 bits: products overflow. Signatures are uint64 or, of precision 32, uint32; a
    document of fewer words, of which datatrove writes none, is all ones. The formula has not changed from 0.4 to 0.10;
    checked against 0.10.1. `hash="xxhash"` needs `pip install "gpulsh[compat]"`.

    >>> sketch = DatatroveMinHash(num_perm=4, n_grams=2, precision=32, hash="sha1")
    >>> sketch.from_tokens([["the", "same", "words"]], backend="cpu").values.tolist()
    [[513251273, 591561938, 1475594312, 2101095665]]
    """

    num_perm: int = 112
    n_grams: int = 5
    precision: Literal[32, 64] = 64
    hash: Literal["sha1", "xxhash"] = "xxhash"

    @property
    def functions(self) -> GivenFamily:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        check_choice("precision", self.precision, (32, 64))
        check_choice("hash", self.hash, ("sha1", "xxhash"))
        set_integer(self, "n_grams", 1, 1 << 20)
        seed = check_integer("seed", self.seed, 0, MAX_SEED)
        return at_once(
            "wrapped61" if self.precision == 64 else "wrapped61_low", self.num_perm, seed, MERSENNE_61, "uint64"
        )

    @property
    def token_hash(self) -> Hash:
        """SHA-1, its first bits, or xxHash (XXH32, XXH64) of a run's bytes."""
        return Sha1(self.precision) if self.hash == "sha1" else xxhash_function(f"xxh{self.precision}_intdigest")

    def _hashed_tokens(self, tokens: list[bytes]) -> list[bytes]:
        return runs(tokens, self.n_grams)
