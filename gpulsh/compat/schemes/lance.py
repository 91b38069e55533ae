"""`LanceMinHash` and `FastSketchLSH`: the signatures of Lance, and of FastSketchLSH."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signatures
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.checks import check_choice, check_integer, check_type, set_integer
from gpulsh.compat.schemes.sketches import (
    Hash,
    HashSketch,
    TokenSketch,
    given_family,
    mersenne_twister,
    token_runs,
    xxhash_function,
)
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_SEED, GivenFamily
from gpulsh.permutations import splitmix64, splitmix64_array

SEED = 42
_GAMMA = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True)
class LanceMinHash(TokenSketch):
    """The signatures of version 0 of Lance's procedure, from a text's tokens.

    XXH64 hashes runs of `shingle_size` tokens, or all of fewer, joined by the byte 0x1F. With the least of
    a * x + b mod 2^64, the value is (c * least mod 2^64) >> 48, uint16 there and uint32 here. The seed is always 42.
    Source: *MinHash LSH Index*, Lance's format specification (2026-09), whose known answers the tests have. Lance's
    tokenizer by default lower-cases words and folds them to ASCII; here tokens are given. Hashing them needs
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
        """The functions by which backends make signatures. ParameterError for a wrong parameter."""
        check_choice("seed", self.seed, (SEED,))
        set_integer(self, "shingle_size", 1, 1 << 20)
        drawn = _draw_words(2 * self.num_perm)
        return given_family("affine64", SEED, [word | 1 for word in drawn[0::2]], drawn[1::2])

    @property
    def token_hash(self) -> Hash:
        """XXH64 of a shingle's bytes."""
        return xxhash_function("xxh64_intdigest", seed=SEED)

    def _hashed_tokens(self, tokens: list[bytes]) -> list[bytes]:
        return token_runs(tokens, min(self.shingle_size, len(tokens)), b"\x1f") if tokens else []

    def _convert_minima(self, signatures: Array, ops: Backend) -> Array:
        drawn = np.array(_draw_words(3 * self.num_perm)[2 * self.num_perm :], np.uint64) | np.uint64(1)
        values = (signatures * ops.asarray(drawn) >> np.uint64(48)).astype(np.uint32)
        values[(signatures == np.uint64(2**64 - 1)).all(axis=1)] = np.uint32(2**32 - 1)
        return values


def _draw_words(count: int) -> list[int]:
    """SplitMix64 from the seed on."""
    return [splitmix64(SEED + (i + 1) * _GAMMA) for i in range(count)]


MAX_LENGTH = 2048  # beyond, a value there has too few bits for its round


@dataclass(frozen=True, kw_only=True)
class FastSketchLSH(HashSketch):
    """The sketches of `FastSimilaritySketch(sketch_size, seed)` of sets of integers: `num_perm` values, uint64.

    A set goes into the bins in rounds until none is empty (Dahlgaard, Knudsen, Thorup 2017, in the variant that
    `splitmix_rounds` of `gpulsh.backends.protocol.SketchFold` defines). `num_perm` is its `sketch_size`, a power of two
    from 1 to 2048. Called on hashes it takes them as its `sketch_prehashed` does. Checked against FastSketchLSH 1.0.1.

    >>> sketch = FastSketchLSH(num_perm=4)
    >>> integers = Fingerprints(np.array([3, 1, 4], np.uint64), np.array([0, 3]))
    >>> sketch.from_integers(integers, backend="cpu").values.tolist()
    [[3183409341995024, 3177672763772409, 8090213980992690, 7081955186386979]]
    """

    seed: int = 42

    @property
    def functions(self) -> GivenFamily:
        """The functions by which backends make signatures. ParameterError for a wrong parameter."""
        if self.num_perm > MAX_LENGTH or self.num_perm & (self.num_perm - 1):
            raise ParameterError(f"num_perm is {self.num_perm}; give a power of two from 1 to {MAX_LENGTH}")
        seed = check_integer("seed", self.seed, 0, MAX_SEED)
        drawn = list(islice(mersenne_twister(seed), 2 * self.num_perm))
        return given_family("splitmix_rounds", seed, drawn[: self.num_perm], drawn[self.num_perm :])

    def from_integers(
        self, integers: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Sketches of rows of integers below 2^32, `values` uint64 and `offset` int64 [n + 1], hashed by SplitMix64."""
        check_type("integers", integers, Fingerprints)
        if len(integers.values) and int(integers.values.max()) >> 32:
            raise ParameterError(f"integers holds {int(integers.values.max())}; give integers below 2^32")
        hashes = Fingerprints(splitmix64_array(integers.values + np.uint64(_GAMMA)), integers.offset)
        return self(hashes, backend=backend, threads=threads)
