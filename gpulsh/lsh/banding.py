"""Texts to signatures, band digests and exact hashes, batch after batch; signatures to band digests and pairs.

`gpulsh.Banding` takes bands of signature values, `gpulsh.BitSampling` samples bits for Hamming distance, and
`gpulsh.Supershingles` finds pairs that agree in several long groups of values at once.

`sign_by_method` makes the digests by the method's sketch, or by SimHash (one for each table of a Hamming search).
`sign_sets` keeps all fingerprints instead, for containment: there no sketch finds the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TypeVar

import numpy as np

from gpulsh.arrays import Array, BandDigests, BitSignatures, Fingerprints, Signatures, Signed, TextBatch
from gpulsh.backends.parallel import in_fitting_parts, map_batches
from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.io.rows import normalized
from gpulsh.lsh.collisions import candidate_pairs
from gpulsh.lsh.hamming_tables import designs, key_digests
from gpulsh.method import Method
from gpulsh.params import (
    MAX_NUM_PERM,
    MAX_SEED,
    BandShape,
    Family,
    NearBits,
    Parameters,
    Shingling,
    check_type,
    set_integer,
    shown,
)
from gpulsh.permutations import stream
from gpulsh.secret import EvidenceKeys
from gpulsh.sketch.bits import WORD_BITS
from gpulsh.sketch.simhash import keys_of
from gpulsh.stats.stages import Funnel, Progress, with_progress


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
    A signature without a bit set is no exception. Source: Indyk, Motwani 1998, *Approximate nearest neighbors: towards
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


Result = TypeVar("Result")
Sign = Callable[[TextBatch, Method, EvidenceKeys, Backend], Result]

LEAST = Family(num_perm=1), BandShape(bands=1, rows=1)  # the smallest signature, where only exact hashes are used


def sign_batches(
    batches: Iterable[TextBatch],
    method: Method,
    keys: EvidenceKeys,
    ops: Backend,
    funnel: Funnel,
    progress: Progress,
    by: Sign[Result],
) -> Iterator[Result]:
    """`by` of each batch, with exact hashes under `keys`; adds the bytes to `funnel` and `progress`."""

    def prepare(batch: TextBatch) -> TextBatch:
        funnel.bytes += int(batch.offset[-1] - batch.offset[0])
        return normalized(batch, method.folding.form)

    with ops.here():
        ready = with_progress(batches, progress, prepare)
        yield from map_batches(ops, ready, lambda lane, batch: by(batch, method, keys, lane))


def sign_by_method(batch: TextBatch, method: Method, keys: EvidenceKeys, ops: Backend) -> Signed:
    """One batch, signed by the sketch of the method."""
    if method.near is not None:
        return words_and_digests(batch, method.reading, method.near, keys, ops)[1]
    return ops.sign(batch, method.reading, method.family, method.banding, keys)


def words_and_digests(
    text: TextBatch, shingling: Shingling, near: NearBits, keys: EvidenceKeys, ops: Backend
) -> tuple[Array, Signed]:
    """SimHash's bits, uint64 [n, bits / 64], and Signed: digests uint64 [n, tables], equal where the keys' bits are."""
    signed = ops.sign(text, shingling, *LEAST, keys)
    words = ops.text_simhash(text, shingling, keys_of(near.bits, near.seed), near.weights == "set")
    columns = []
    for key in designs(near.bits, near.distance)[near.tables].keys:
        digests = key_digests(words, key)
        digests[digests == np.uint64(NO_DIGEST)] = np.uint64(INSTEAD_OF_NO_DIGEST)
        digests[signed.shingles == 0] = np.uint64(NO_DIGEST)
        columns.append(digests)
    return words, Signed(np.stack(columns, axis=1), signed.exact, signed.shingles)


def sign_sets(
    batch: TextBatch, method: Method, keys: EvidenceKeys, ops: Backend
) -> tuple[Signed, Sequence[Fingerprints]]:
    """One batch: exact hashes without digests, and public unique fingerprints in NumPy arrays, in ranges if many."""
    least = ops.sign(batch, method.reading, *LEAST, keys)
    size, whole = int(batch.offset[-1] - batch.offset[0]), ops.sizes().whole

    def sets(parts: int) -> list[Fingerprints]:
        if parts <= 1:
            return [ops.shingle_sets(batch, method.reading).moved(ops.asnumpy)]
        return [ops.shingle_part(batch, method.reading, part, parts).moved(ops.asnumpy) for part in range(parts)]

    found, _ = in_fitting_parts(sets, -(-size // whole) if whole else 1)
    return Signed(least.digests[:, :0], least.exact, least.shingles), found
