"""`gpulsh.compat.NemoMinHash`: the signatures of NeMo Curator's fuzzy deduplication, which cuDF computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Numbers, Signatures, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.compat.schemes.draws import MAX_SEED, MERSENNE_61, by_turns
from gpulsh.compat.schemes.murmur3 import murmur3
from gpulsh.compat.schemes.token_sketch import HashSketch, check_halves
from gpulsh.io.memory.texts import open_texts
from gpulsh.params import GivenFamily, check_choice, check_integer, set_integer
from gpulsh.ragged import end_to_end, offsets

BATCH_BYTES = 1 << 20  # of text whose windows are hashed at once


@dataclass(frozen=True, kw_only=True)
class NemoMinHash(HashSketch):
    """What NeMo Curator's `MinHashStage` makes of a text: its `_minhash_signature`.

    Every window of `char_ngrams` characters, or all of a shorter text, is hashed by MurmurHash3 with the first
    multiplier for its seed, 0 counting as 1. Of 32 bits a value is a * x + b mod 2^32: cuDF multiplies in words of 32
    bits, so that the division by 2^61 - 1 which follows changes nothing. Of 64 it is (a * x + b mod 2^64) mod 2^61 - 1.
    Defaults are those of `num_hashes=260, use_64bit_hash=False`. An empty text is all ones here and all zeros there.
    By the sources of NeMo Curator 1.4 and cuDF 26.10; the known answers are of a plain transcription of that
    arithmetic, for cuDF runs on devices alone.

    >>> NemoMinHash(num_perm=3, char_ngrams=2).from_texts(["near"], backend="cpu").values.tolist()
    [[1812664560, 462408356, 306873775]]
    """

    num_perm: int = 260
    seed: int = 42
    char_ngrams: int = 24
    bits: Literal[32, 64] = 32

    @property
    def functions(self) -> GivenFamily:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        check_choice("bits", self.bits, (32, 64))
        set_integer(self, "char_ngrams", 2, 1 << 20)
        seed = check_integer("seed", self.seed, 0, MAX_SEED)
        if self.bits == 32:
            return by_turns("affine32", self.num_perm, seed, 2**31 - 1, "uint32")
        return by_turns("wrapped61", self.num_perm, seed, MERSENNE_61, "uint64")

    def from_texts(self, texts: object, *, backend: BackendName = "auto", threads: int | None = None) -> Signatures:
        """`self` of the hashes of each text's windows; of texts of every kind that `gpulsh.deduplicate` takes."""
        return self(self.hashes(texts), backend=backend, threads=threads)

    def hashes(self, texts: object) -> Fingerprints:
        """The hash of each window of each text, in order."""
        parts = [self._hashes(batch) for batch in open_texts(texts).batches(BATCH_BYTES)]
        return end_to_end(parts or [Fingerprints(np.empty(0, np.uint64), np.zeros(1, np.int64))])

    def _hashes(self, batch: TextBatch) -> Fingerprints:
        values, rows = batch.values, batch.offset
        starts: Numbers = np.flatnonzero((values & 0xC0) != 0x80)  # of characters
        ends: Numbers = np.searchsorted(starts, np.asarray(rows))  # of rows, in characters
        sizes = np.diff(ends)
        windows = np.where(sizes > 0, np.maximum(sizes - self.char_ngrams + 1, 1), 0)
        offset = offsets(windows)
        row = np.repeat(np.arange(len(batch)), windows)
        first = np.arange(offset[-1]) - offset[row] + ends[row]
        begin = starts[first]
        end = np.append(starts, rows[-1])[np.minimum(first + self.char_ngrams, ends[row + 1])]
        hashed = murmur3(values, begin, end - begin, self.functions.first[0], self.bits)
        return Fingerprints(np.maximum(hashed, np.uint64(1)), offset)

    def _ready(self, values: Array, ops: Backend) -> Array:
        if self.bits == 64:
            return values
        check_halves(values)
        return values << np.uint64(32)  # where `affine32` reads them
