"""`gpulsh.compat.LanceMinHash`: the signatures of Lance's MinHash LSH index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.compat.schemes.draws import given
from gpulsh.compat.schemes.hashes import Hash, xxhash_function
from gpulsh.compat.schemes.token_sketch import TokenSketch, runs
from gpulsh.params import GivenFamily, check_choice, set_integer
from gpulsh.permutations import splitmix64

SEED = 42
_GAMMA = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True)
class LanceMinHash(TokenSketch):
    """What version 0 of Lance's signature procedure makes of a text's tokens.

    Runs of `shingle_size` tokens, or all of fewer, joined by the byte 0x1F, are hashed by XXH64; of the least
    a * x + b mod 2^64 the value is (c * least mod 2^64) >> 48, uint16 there and uint32 here. The seed is always 42.
    Source: *MinHash LSH Index*, Lance's format specification (2026-09), whose known answers the tests have. Tokens are
    those of its tokenizer, which by default lower-cases words and folds them to ASCII; hashing them needs
    `pip install "gpulsh[compat]"`.

    >>> from gpulsh import Fingerprints
    >>> hashes = np.array([0x4C0B0D36203CE55F, 0x09C7AE895D82B184, 0x68E7F4B1BE7B4C1F], np.uint64)
    >>> signatures = LanceMinHash(num_perm=4)(Fingerprints(hashes, np.array([0, 3])), backend="cpu")
    >>> [hex(value) for value in signatures[0]]
    ['0xb00f', '0x59d6', '0x511a', '0xcd2c']
    """

    seed: int = SEED
    shingle_size: int = 3

    @property
    def functions(self) -> GivenFamily:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        check_choice("seed", self.seed, (SEED,))
        set_integer(self, "shingle_size", 1, 1 << 20)
        drawn = _drawn(2 * self.num_perm)
        return given("affine64", SEED, [word | 1 for word in drawn[0::2]], drawn[1::2])

    @property
    def token_hash(self) -> Hash:
        """XXH64 of a shingle's bytes."""
        return xxhash_function("xxh64_intdigest", seed=SEED)

    def _hashed_tokens(self, tokens: list[bytes]) -> list[bytes]:
        return runs(tokens, min(self.shingle_size, len(tokens)), b"\x1f") if tokens else []

    def _finished(self, signatures: Array, ops: Backend) -> Array:
        drawn = np.array(_drawn(3 * self.num_perm)[2 * self.num_perm :], np.uint64) | np.uint64(1)
        values = (signatures * ops.asarray(drawn) >> np.uint64(48)).astype(np.uint32)
        values[(signatures == np.uint64(2**64 - 1)).all(axis=1)] = np.uint32(2**32 - 1)
        return values


def _drawn(count: int) -> list[int]:
    """SplitMix64 from the seed on."""
    return [splitmix64(SEED + (i + 1) * _GAMMA) for i in range(count)]
