"""`gpulsh.BBit`: a few bits of each value of signatures, packed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Array, PackedSignatures, Signatures
from gpulsh.backends.hashing import mix64
from gpulsh.backends.protocol import GOLDEN, STREAM_BITS
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_type, set_integer, set_one_of
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_NUM_PERM, MAX_SEED, Named
from gpulsh.sketch.base import TextSketch, check_maker, checked_estimate, checked_pairs, map_pairs
from gpulsh.sketch.bits import popcount
from gpulsh.sketch.minhash import MinHash
from gpulsh.text.documents import Documents

BITS = (1, 2, 4, 8, 16, 32)
ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, kw_only=True)
class BBit(TextSketch[PackedSignatures], Named):
    """`bits` bits, one of 1, 2, 4, 8, 16 and 32, of each of the `num_perm` values of signatures.

    Two values that differ have the same bits with probability 2^-bits; the estimate corrects for it. In the memory of
    uint32 signatures, 32 / bits times as many values fit, so the estimate errs less. The bits of a value v at place i
    are the lowest of NOT mix64(NOT v * key(STREAM_BITS, i)), as `gpulsh.backends.protocol` defines both. (Scheme 1 took
    the lowest bits of v, which depend on the lowest bits of the fingerprint alone, so two short documents agreed in all
    places or in none.) `seed` is for the MinHash in `from_texts`. A row of all ones belongs to an empty document; any
    other document has one with a chance of 2^-(bits * num_perm). It then counts as empty, so estimates have a bias of
    at most twice that, below 0.002 from 10 bits per row on.
    Source: Li, Koenig 2010, *b-Bit minwise hashing*, for documents that are small compared with the universe.
    Raises ParameterError for other `bits`, `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> signatures = MinHash(num_perm=256).from_texts(["a b c d e f", "A b c d e f!", "g h"], backend="cpu")
    >>> packed = BBit(bits=2, num_perm=256)(signatures, backend="cpu")
    >>> packed.shape, BBit(bits=2, num_perm=256).estimate(packed, [[0, 1]], backend="cpu")
    ((3, 8), array([1.]))
    """

    bits: int = 1
    num_perm: int = 128
    seed: int = 1

    def __post_init__(self) -> None:
        set_one_of(self, "bits", BITS)
        set_integer(self, "num_perm", 1, MAX_NUM_PERM)
        set_integer(self, "seed", 0, MAX_SEED)

    def __call__(
        self, signatures: Signatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> PackedSignatures:
        """PackedSignatures, uint64 [n, ceil(num_perm * bits / 64)], of Signatures [n, num_perm].

        Raises ParameterError if signatures have another number of values.
        """
        check_type("signatures", signatures, Signatures)
        if signatures.shape[1] != self.num_perm:
            raise ParameterError(
                f"the signatures have {signatures.shape[1]} values and num_perm is {self.num_perm}; give signatures of"
                f" {self.num_perm} values, or BBit(num_perm={signatures.shape[1]})"
            )
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            return self._packed(ops.asarray(signatures.values))

    def _sketch_documents(self, documents: Documents) -> PackedSignatures:
        return self._packed(MinHash(num_perm=self.num_perm, seed=self.seed)._sketch_documents(documents).values)

    def estimate(
        self, packed: PackedSignatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """Estimate the Jaccard similarity of each pair of rows, float64 [m]; 0 where a document is empty.

        That is (share - 2^-bits) / (1 - 2^-bits), where share counts equal values; it is below 0 if fewer agree than
        by chance. Raises ParameterError if `packed` has other parameters, or `pairs` name no rows of it.
        """
        check_type("packed", packed, PackedSignatures)
        words = -(-self.num_perm * self.bits // 64)
        if packed.shape[1] != words:
            raise ParameterError(
                f"the packed signatures have {packed.shape[1]} words a row; {self.num_perm} values of {self.bits} bits"
                f" have {words}"
            )
        check_maker("packed", packed, self)
        ops = select_backend(backend, threads=threads)
        with ops.use_device():
            rows, values = checked_pairs(pairs, len(packed), ops), ops.asarray(packed.values)
            chance = 2.0**-self.bits

            def corrected(some: Array) -> Array:
                left, right = values[some[:, 0]], values[some[:, 1]]
                share = 1 - self._differing_values(left ^ right) / self.num_perm
                filled = (self._differing_values(~left) > 0) & (self._differing_values(~right) > 0)
                return np.where(filled, (share - chance) / (1 - chance), 0.0)

            return map_pairs(rows, corrected)

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """The theoretical standard deviation of the estimate at a similarity of `value`; `size` has no effect.

        It holds for signatures with independent values, such as MinHash's. Raises ParameterError for a `value` outside
        0 to 1 and a `size` below 1.
        """
        value, _ = checked_estimate(value, size)
        chance = 2.0**-self.bits
        share = chance + (1 - chance) * value
        return float(np.sqrt(share * (1 - share) / self.num_perm) / (1 - chance))

    def _packed(self, values: Array) -> PackedSignatures:
        a_word = 64 // self.bits
        words = -(-self.num_perm // a_word)
        places = np.arange(1, self.num_perm + 1, dtype=np.uint64, like=values)
        keys = mix64(places * np.uint64(GOLDEN) + np.uint64(STREAM_BITS)) | np.uint64(1)
        shifts = np.arange(0, 64, self.bits, dtype=np.uint64, like=values)
        parts = [np.empty((0, words), np.uint64, like=values)]
        for start in range(0, len(values), ROWS_AT_ONCE):
            some = values[start : start + ROWS_AT_ONCE]
            bits = ~mix64((~some).astype(np.uint64) * keys)  # all ones of no value: mix64(0) is 0
            lowest = np.zeros((len(some), words * a_word), np.uint64, like=values)
            lowest[:, : self.num_perm] = bits & np.uint64(2**self.bits - 1)
            parts.append((lowest.reshape(len(some), words, a_word) << shifts).sum(axis=2, dtype=np.uint64))
        return PackedSignatures(np.concatenate(parts), maker=self)

    def _differing_values(self, words: Array) -> Array:
        """int64 [m]: the number of fields of [m, words] that hold a value other than 0."""
        a_word, shift = 64 // self.bits, self.bits // 2
        while shift:
            words = words | words >> np.uint64(shift)
            shift //= 2
        lowest = np.uint64(sum(1 << self.bits * field for field in range(a_word)))
        last = np.uint64((1 << self.bits * (self.num_perm - (words.shape[1] - 1) * a_word)) - 1)
        differ = popcount(words & lowest)
        differ[:, -1] = popcount(words[:, -1] & lowest & last)
        return differ.sum(axis=1, dtype=np.int64)
