"""`gpulsh.compat.DatasketchMinHash`: the hash values of datasketch's `MinHash`, of each of its schemes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.compat.schemes.draws import MAX_SEED, MERSENNE_61, by_turns, odd
from gpulsh.compat.schemes.hashes import Hash, Sha1
from gpulsh.compat.schemes.token_sketch import TokenSketch, check_halves
from gpulsh.params import GivenFamily, check_choice, check_integer

Scheme = Literal["affine32", "affine64", "legacy"]


@dataclass(frozen=True, kw_only=True)
class DatasketchMinHash(TokenSketch):
    """What `datasketch.MinHash(num_perm, seed, scheme=scheme)` makes of the same tokens: its `hashvalues`.

    ==========  =======================  ============================================================================
    scheme      hash of a token          value
    ==========  =======================  ============================================================================
    `affine32`  SHA-1, its first 32 bits a * fmix32(x) + b mod 2^32, a odd, uint32; the default of datasketch 2.0
    `affine64`  SHA-1, its first 64 bits a * fmix64(x) + b mod 2^64, a odd, uint64
    `legacy`    SHA-1, its first 32 bits (a * x + b mod 2^64) mod 2^61 - 1, its lower 32 bits, uint32 here and uint64
                                         there; the only one before 2.0, the same since 1.5.9
    ==========  =======================  ============================================================================

    fmix is the finalizer of MurmurHash3. Whoever gave datasketch a `hashfunc` of their own calls the sketch on what
    that returns. Checked against datasketch 2.0.0.

    >>> sketch = DatasketchMinHash(num_perm=4, scheme="legacy")
    >>> sketch.from_tokens([[b"a", b"b"]], backend="cpu").values.tolist()
    [[297616339, 739114274, 2013617805, 1974455217]]
    """

    scheme: Scheme = "affine32"

    @property
    def functions(self) -> GivenFamily:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        check_choice("scheme", self.scheme, get_args(Scheme))
        seed = check_integer("seed", self.seed, 0, MAX_SEED)
        if self.scheme == "legacy":
            return by_turns("wrapped61_low", self.num_perm, seed, MERSENNE_61, "uint64")
        return odd(self.scheme, self.num_perm, seed)

    @property
    def token_hash(self) -> Hash:
        """SHA-1 of a token's bytes, its first 32 or 64 bits."""
        return Sha1(64 if self.scheme == "affine64" else 32)

    def _ready(self, values: Array, ops: Backend) -> Array:
        if self.scheme == "affine32":
            check_halves(values)
        return premixed(values, self.scheme)


def premixed(values: Array, scheme: Scheme) -> Array:
    """Hashes as the functions of a scheme take them, in `affine32` in upper halves; arrays of NumPy or CuPy."""
    if scheme == "legacy":
        return values
    if scheme == "affine64":
        return finalized(values)
    mixed = finalized(values.astype(np.uint32)).astype(np.uint64)
    mixed <<= np.uint64(32)
    return mixed


def finalized(values: Array) -> Array:
    """The finalizer of MurmurHash3 of each word, uint32 or uint64."""
    one, two, three, first, second = _FINALIZER[values.dtype]
    values = values ^ values >> one
    values *= first
    values ^= values >> two
    values *= second
    values ^= values >> three
    return values


_FINALIZER = {
    np.dtype(np.uint32): tuple(map(np.uint32, (16, 13, 16, 0x85EBCA6B, 0xC2B2AE35))),
    np.dtype(np.uint64): tuple(map(np.uint64, (33, 33, 33, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53))),
}
