"""`NemoMinHash`: the signatures of NeMo Curator, with MurmurHash3 (Appleby 2011) of many pieces of text at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Numbers, Signatures, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.checks import set_integer, set_one_of
from gpulsh.compat.schemes.sketches import HashSketch, check_halves, draw_interleaved, murmur_finalizer
from gpulsh.io.memory.texts import open_texts
from gpulsh.io.rows import join_texts
from gpulsh.params import GivenFamily
from gpulsh.ragged import concat_rows, offsets, sorted_distinct

Word = TypeVar("Word", np.uint32, np.uint64)
_PADDING = 16


def murmur3(
    text: NDArray[np.uint8], begin: NDArray[np.int64], length: NDArray[np.int64], seed: int, bits: int
) -> NDArray[np.uint64]:
    """uint64 [m]: of each text[begin : begin + length], by the variant x86_32 or the first half of x64_128.

    >>> hello = np.frombuffer(b"hello", np.uint8)
    >>> murmur3(hello, np.array([0]), np.array([5]), seed=0, bits=32).tolist()
    [613153351]
    """
    padded = np.concatenate((text, np.zeros(_PADDING, np.uint8)))
    found = np.empty(len(begin), np.uint64)
    for size in sorted_distinct(length):
        which = np.flatnonzero(length == size)
        found[which] = (_x86_32 if bits == 32 else _x64_128)(padded, begin[which], int(size), seed)
    return found


def _words(padded: NDArray[np.uint8], kind: type[Word], begin: NDArray[np.int64], size: int) -> NDArray[Word]:
    """The words at `begin`, cut to `size` bytes if a word has more."""
    dtype = np.dtype(kind)
    at_any_byte: NDArray[Word] = np.ndarray((len(padded) - 7,), dtype.newbyteorder("<"), padded, 0, (1,))
    words = at_any_byte[begin].astype(kind)
    return words if size >= dtype.itemsize else words & kind((1 << 8 * max(size, 0)) - 1)


def _rotated(words: NDArray[Word], left: int) -> NDArray[Word]:
    kind = words.dtype.type
    return words << kind(left) | words >> kind(8 * words.itemsize - left)


def _x86_32(padded: NDArray[np.uint8], begin: NDArray[np.int64], size: int, seed: int) -> NDArray[np.uint32]:
    u = np.uint32
    hashed = np.full(len(begin), seed, u)
    for at in range(0, size, 4):
        piece = _rotated(_words(padded, u, begin + at, size - at) * u(0xCC9E2D51), 15) * u(0x1B873593)
        hashed ^= piece
        if at + 4 <= size:
            hashed = _rotated(hashed, 13) * u(5) + u(0xE6546B64)
    return murmur_finalizer(hashed ^ u(size))  # type: ignore[no-any-return]


def _x64_128(padded: NDArray[np.uint8], begin: NDArray[np.int64], size: int, seed: int) -> NDArray[np.uint64]:
    u, one, two = np.uint64, np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
    first, second = np.full(len(begin), seed, u), np.full(len(begin), seed, u)
    for at in range(0, size, 16):
        left = size - at
        first ^= _rotated(_words(padded, u, begin + at, left) * one, 31) * two
        if left >= 16:
            first = (_rotated(first, 27) + second) * u(5) + u(0x52DCE729)
        second ^= _rotated(_words(padded, u, begin + at + 8, left - 8) * two, 33) * one
        if left >= 16:
            second = (_rotated(second, 31) + first) * u(5) + u(0x38495AB5)
    first, second = first ^ u(size), second ^ u(size)
    first += second
    second += first
    return murmur_finalizer(first) + murmur_finalizer(second)  # type: ignore[no-any-return]


BATCH_BYTES = 1 << 20  # of text whose windows are hashed at once


@dataclass(frozen=True, kw_only=True)
class NemoMinHash(HashSketch):
    """The `_minhash_signature` of NeMo Curator's `MinHashStage` for the same text.

    MurmurHash3 hashes every window of `char_ngrams` characters, or all of a shorter text. Its seed is the first
    multiplier, and a hash of 0 counts as 1. With 32 bits a value is a * x + b mod 2^32. cuDF multiplies in words of 32
    bits, so its division by 2^61 - 1 changes nothing. With 64 bits it is (a * x + b mod 2^64) mod 2^61 - 1. The
    defaults match `num_hashes=260, use_64bit_hash=False`. An empty text is all ones here and all zeros there. The
    formulas follow the sources of NeMo Curator 1.4 and cuDF 26.10. cuDF needs a device, so the known answers come from
    a plain transcription.

    >>> NemoMinHash(num_perm=3, char_ngrams=2).from_texts(["near"], backend="cpu").values.tolist()
    [[1812664560, 462408356, 306873775]]
    """

    num_perm: int = 260
    seed: int = 42
    char_ngrams: int = 24
    bits: Literal[32, 64] = 32

    @property
    def functions(self) -> GivenFamily:
        """The functions by which backends make signatures. ParameterError for a wrong parameter."""
        set_one_of(self, "bits", (32, 64))
        set_integer(self, "char_ngrams", 2, 1 << 20)
        return draw_interleaved("affine32" if self.bits == 32 else "wrapped61", self.num_perm, self.seed)

    def from_texts(self, texts: object, *, backend: BackendName = "auto", threads: int | None = None) -> Signatures:
        """`self` of the hashes of each text's windows; of texts of every kind that `gpulsh.deduplicate` takes."""
        return self(self.hashes(texts), backend=backend, threads=threads)

    def hashes(self, texts: object) -> Fingerprints:
        """The hash of each window of each text, in order."""
        parts = [self._hashes(batch) for batch in open_texts(texts).batches(BATCH_BYTES)]
        return concat_rows(parts or [Fingerprints(np.empty(0, np.uint64), np.zeros(1, np.int64))])

    def _hashes(self, batch: TextBatch) -> Fingerprints:
        raw, spans = batch.values.tobytes(), pairwise(batch.offset.tolist())
        valid = join_texts([raw[start:stop].decode("utf-8", "replace").encode() for start, stop in spans])
        values, rows = valid.values, valid.offset
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

    def _prepare_hashes(self, values: Array, ops: Backend) -> Array:
        if self.bits == 64:
            return values
        check_halves(values)
        return values << np.uint64(32)  # where `affine32` reads them
