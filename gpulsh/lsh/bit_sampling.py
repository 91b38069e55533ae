"""`gpulsh.BitSampling`: bit signatures to band digests, the family of Hamming distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import BandDigests, BitSignatures
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.params import MAX_SEED, BandShape, check_type, set_integer
from gpulsh.permutations import stream
from gpulsh.sketch.bits.bit_sketch import WORD_BITS

BITS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BitSampling(BandShape):
    """`bands` digests of `rows` bits each, at positions drawn from `seed` with replacement.

    Two signatures that differ in d of their bits have a band's digest in common with probability (1 - d / bits)^rows.
    A signature without a bit is one like others. Source: Indyk, Motwani 1998, *Approximate nearest neighbors: towards
    removing the curse of dimensionality*; Gionis, Indyk, Motwani 1999, section 3. Raises ParameterError for `bands` and
    `rows` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> signatures = BitSignatures(np.array([[0], [1], [2**64 - 1]], np.uint64))
    >>> BitSampling(bands=4, rows=8)(signatures, backend="cpu").shape
    (3, 4)
    """

    seed: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        set_integer(self, "seed", 0, MAX_SEED)

    def __call__(
        self, bit_signatures: BitSignatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> BandDigests:
        """Digests, uint64 [n, bands], of BitSignatures [n, bits / 64]; ParameterError for anything else."""
        check_type("bit_signatures", bit_signatures, BitSignatures)
        ops = select_backend(backend, threads=threads)
        words, width = ops.asarray(bit_signatures.values), bit_signatures.shape[1]
        count = self.bands * self.rows
        drawn = stream("bit_sampling", self.seed, count)
        place = (drawn >> np.uint64(32)) * np.uint64(WORD_BITS * width) >> np.uint64(32)
        word, shift = ops.asarray((place >> np.uint64(6)).astype(np.int64)), ops.asarray(place & np.uint64(63))
        parts = [ops.asarray(np.empty((0, self.bands), np.uint64))]
        some = max(BITS_AT_ONCE // count, 1)
        for start in range(0, len(words), some):
            bits = words[start : start + some][:, word] >> shift & np.uint64(1)
            parts.append(ops.band_digests(bits.astype(np.uint32), self))
        return BandDigests(np.concatenate(parts))
