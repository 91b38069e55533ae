"""Signatures to band digests and candidate pairs.

`gpulsh.Banding` takes bands of signature values, `gpulsh.BitSampling` samples bits for Hamming distance, and
`gpulsh.Supershingles` finds pairs that agree in several long groups of values at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from gpulsh.arrays import Array, BandDigests, BitSignatures, Signatures
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_type, set_integer, shown
from gpulsh.errors import ParameterError
from gpulsh.lsh.collisions import candidate_pairs
from gpulsh.params import MAX_NUM_PERM, MAX_SEED, BandShape, Parameters
from gpulsh.permutations import stream
from gpulsh.sketch.bits import WORD_BITS


@dataclass(frozen=True, kw_only=True)
class Banding(BandShape):
    """`bands` bands of `rows` signature values; documents whose digests agree in one band are a candidate pair.

    Source: Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.4. Raises ParameterError for numbers
    outside 1 to 65,536.

    >>> from gpulsh.sketch.minhash import MinHash
    >>> signatures = MinHash(num_perm=128).from_texts(["one text", "another"], backend="cpu")
    >>> Banding(bands=18, rows=7)(signatures, backend="cpu").shape
    (2, 18)
    """

    def __call__(
        self, signatures: Signatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> BandDigests:
        """Digests, uint64 [n, bands], of Signatures [n, num_perm]; 2^64 - 1 in all bands of an empty document.

        Raises ParameterError if bands * rows exceeds num_perm.
        """
        check_type("signatures", signatures, Signatures)
        num_perm = signatures.shape[1]
        if self.bands * self.rows > num_perm:
            raise ParameterError(
                f"bands * rows is {self.bands} * {self.rows} = {self.bands * self.rows} and the signatures have"
                f" {num_perm} values; give bands and rows whose product is at most {num_perm}"
            )
        ops = select_backend(backend, threads=threads)
        return BandDigests(ops.band_digests(ops.asarray(signatures.values), self))


BITS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BitSampling(BandShape):
    """`bands` digests of `rows` bits each, at positions drawn from `seed` with replacement.

    Two signatures that differ in d of their bits have a band's digest in common with probability (1 - d / bits)^rows.
    This also holds for a signature without a bit set. Source: Indyk, Motwani 1998, *Approximate nearest neighbors:
    towards removing the curse of dimensionality*; Gionis, Indyk, Motwani 1999, section 3. Raises ParameterError for
    `bands` and `rows` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

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


@dataclass(frozen=True, kw_only=True)
class Supershingles(Parameters):
    """Pairs whose digests of `of` signature values agree in at least `agree` of `groups` groups.

    A group is a supershingle (Broder, Glassman, Manasse, Zweig 1997, *Syntactic clustering of the web*). Documents
    collide by a digest of each choice of `agree` groups, so pairs that agree in fewer never arise (megashingles:
    Fetterly, Manasse, Najork 2003, *On the evolution of clusters of near-duplicate web pages*).

    The defaults are algorithm B of Henzinger 2006, *Finding near-duplicate web pages: a large-scale evaluation of
    algorithms*: 84 minima in 6 groups of 14, and 2 groups agree. Her algorithm C is `SimHash` of all *tokens* by
    counts: 372 of 384 bits agree. Her combination keeps pairs of B with 355 such bits equal; `gpulsh.compare` runs it
    as `henzinger`.

    Raises ParameterError for `groups` and `of` outside 1 to 65,536 and `agree` outside 1 to `groups`.

    >>> from gpulsh.sketch.bits import hamming
    >>> from gpulsh.sketch.minhash import MinHash
    >>> from gpulsh.sketch.simhash import SimHash
    >>> from gpulsh.text.documents import shingle
    >>> texts = ["a b c d e f g h i", "A b, c d e: f g h! I", "j"]
    >>> fingerprints = shingle(texts, shingling="word:8", backend="cpu")
    >>> pairs = Supershingles()(MinHash(num_perm=84)(fingerprints, backend="cpu"), backend="cpu")
    >>> bits = SimHash(bits=384, weights="count").from_texts(texts, shingling="word:1", backend="cpu")
    >>> pairs[hamming(bits, pairs, backend="cpu") <= 384 - 355]
    array([[0, 1]])
    """

    groups: int = 6
    of: int = 14
    agree: int = 2

    def __post_init__(self) -> None:
        for name in ("groups", "of"):
            set_integer(self, name, 1, MAX_NUM_PERM)
        set_integer(self, "agree", 1, self.groups)
        choices = comb(self.groups, self.agree)
        if choices > MAX_NUM_PERM:
            raise ParameterError(
                f"agree is {self.agree} of {self.groups} groups, which can be chosen in {shown(choices)} ways; give"
                f" numbers with at most {MAX_NUM_PERM}"
            )

    def __call__(self, signatures: Signatures, *, backend: BackendName = "auto", threads: int | None = None) -> Array:
        """int64 [m, 2], i < j, lexicographic, unique, of Signatures [n, at least groups * of].

        Empty documents are in no pair. Raises ParameterError if signatures have fewer values.
        """
        check_type("signatures", signatures, Signatures)
        needed = self.groups * self.of
        if needed > signatures.shape[1]:
            raise ParameterError(
                f"groups * of is {self.groups} * {self.of} = {needed} and the signatures have {signatures.shape[1]}"
                f" values; give signatures of at least {needed}"
            )
        ops = select_backend(backend, threads=threads)
        digests = ops.band_digests(ops.asarray(signatures.values), BandShape(bands=self.groups, rows=self.of))
        chosen = np.array(list(combinations(range(self.groups), self.agree)), np.int64)
        each = BandShape(bands=1, rows=self.agree)
        columns = [ops.band_digests(digests[:, ops.asarray(groups)], each) for groups in chosen]
        return candidate_pairs(BandDigests(np.concatenate(columns, axis=1)), backend=backend, threads=threads)
