"""`gpulsh.Supershingles`: candidate pairs whose signatures agree in several long groups of values at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from gpulsh.arrays import Array, BandDigests, Signatures
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.lsh.collisions import candidate_pairs
from gpulsh.params import MAX_NUM_PERM, BandShape, Parameters, check_type, set_integer


@dataclass(frozen=True, kw_only=True)
class Supershingles(Parameters):
    """Pairs whose digests of `of` signature values agree in at least `agree` of `groups` groups.

    A group is a supershingle (Broder, Glassman, Manasse, Zweig 1997, *Syntactic clustering of the web*). Every choice
    of `agree` groups has a digest of its own, by which documents collide, so that pairs that agree in fewer are never
    made (megashingles: Fetterly, Manasse, Najork 2003, *On the evolution of clusters of near-duplicate web pages*).

    The defaults, 84 minima in 6 groups of 14 of which 2 agree, are algorithm B of Henzinger 2006, *Finding
    near-duplicate web pages: a large-scale evaluation of algorithms*. Her algorithm C is `SimHash` of all *tokens*,
    384 bits by counts, of which 372 agree. Her combination keeps pairs of B with 355 such bits alike; `gpulsh.compare`
    runs it as `henzinger`.

    Raises ParameterError for `groups` and `of` outside 1 to 65,536 and `agree` outside 1 to `groups`.

    >>> from gpulsh.sketch.bits.hamming import hamming
    >>> from gpulsh.sketch.sets.minhash import MinHash
    >>> from gpulsh.sketch.bits.simhash import SimHash
    >>> from gpulsh.text.shingling import shingle
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
        for name, high in (("groups", MAX_NUM_PERM), ("of", MAX_NUM_PERM), ("agree", self.groups)):
            set_integer(self, name, 1, high)
        choices = comb(self.groups, self.agree)
        if choices > MAX_NUM_PERM:
            raise ParameterError(
                f"agree is {self.agree} of {self.groups} groups, which can be chosen in {choices} ways; give numbers"
                f" with at most {MAX_NUM_PERM}"
            )

    def __call__(self, signatures: Signatures, *, backend: BackendName = "auto", threads: int | None = None) -> Array:
        """int64 [m, 2], i < j, lexicographic, unique, of Signatures [n, at least groups * of].

        Empty documents are in no pair. Raises ParameterError where signatures have fewer values.
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
