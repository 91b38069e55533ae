"""`gpulsh.SimHash`: bits that differ more often, the wider the angle between the weights of two documents.

`DocumentFrequencies` counts the documents of each shingle, for weights by rarity in whole numbers, which are the same
on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, BitSignatures, Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.params import NearBits, check_choice, check_type
from gpulsh.permutations import stream
from gpulsh.ragged import first_of_runs
from gpulsh.sketch.base import TextSketch
from gpulsh.sketch.bits import WORD_BITS, BitSketch
from gpulsh.text.documents import Documents

FRACTION = 16  # bits of a logarithm behind the point


class DocumentFrequencies:
    """Counts of distinct fingerprints, 16 bytes each, in the memory that they came in.

    New ones wait until they are as many as the known ones, so that each is merged a few times only.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Array, Array]] = []  # distinct values, ascending, and how many documents have each
        self._new: list[Array] = []
        self._documents = 0

    def add(self, fingerprints: Fingerprints) -> None:
        """Add documents: unique rows."""
        self._documents += len(fingerprints)
        self._new.append(fingerprints.values[int(fingerprints.offset[0]) : int(fingerprints.offset[-1])])
        if sum(map(len, self._new)) >= sum(len(values) for values, _ in self._known):
            self._merge()

    def weights(self, fingerprints: Fingerprints) -> Array:
        """int64 [nnz]: log2(documents + 1) - log2(documents with the fingerprint), in units of 2^-16."""
        if self._new:
            self._merge()
        values, counts = self._known[0]
        if bool((counts == 1).any()):  # most are: it pays to search among the few others
            values, counts = self._known[0] = values[counts > 1], counts[counts > 1]
        found = np.ones_like(fingerprints.values, np.int64)
        if len(values):
            place = np.minimum(np.searchsorted(values, fingerprints.values), len(values) - 1)
            found = np.where(values[place] == fingerprints.values, counts[place], found)
        most = int(found.max()) if len(found) else 1
        logarithms = log2(np.arange(1, most + 1, dtype=np.int64, like=found))
        return int(log2(np.array([self._documents + 1]))[0]) - logarithms[found - 1]

    def _merge(self) -> None:
        new = np.sort(np.concatenate(self._new))
        parts = [*self._known, (new, np.ones_like(new, np.int64))]
        values, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(values, kind="stable")  # linear, of two runs
        values, sums = values[order], np.cumsum(counts[order])
        begins = np.flatnonzero(first_of_runs(values))
        before = sums[begins] - counts[order[begins]]
        self._known, self._new = [(values[begins], np.diff(before, append=sums[-1:]))], []


def log2(numbers: Array) -> Array:
    """floor(2^16 log2) of int64 numbers from 1 to 2^31 - 1, up to the error of a rule in whole numbers.

    The rule multiplies the number by the power of two that brings y into [2^31, 2^32). Then, 16 times, y becomes
    y * y >> 31; if that is 2^32 or more, it is halved, and the next bit of the fraction, from the highest on, is set.

    >>> log2(np.array([1, 2, 3, 1000])).tolist(), int(2**16 * np.log2(3))
    ([0, 65536, 103872, 653117], 103872)
    """
    exponent = sum((numbers >> np.int64(power) != 0).astype(np.int64) for power in range(1, 31))
    y = numbers.astype(np.uint64) << (31 - exponent).astype(np.uint64)
    found = exponent
    for _ in range(FRACTION):
        y = y * y >> np.uint64(31)
        carry = y >> np.uint64(32)
        y = y >> carry
        found = 2 * found + carry.astype(np.int64)
    return found


Weights = Literal["set", "count", "idf"]


@dataclass(frozen=True, kw_only=True)
class SimHash(TextSketch[BitSignatures], BitSketch):
    """A bit is 1 where the shingles whose hash has the bit have more than half of all weight; at a tie it is 0.

    =========  =========================================================================================================
    `weights`
    =========  =========================================================================================================
    `"set"`    each distinct shingle weighs 1: the cosine is |A and B| / sqrt(|A| |B|), as `gpulsh.cosine` has it
    `"count"`  each occurrence weighs 1
    `"idf"`    each occurrence weighs L(n + 1) - L(the documents of all n that have the shingle), where L is the
               logarithm to the base 2 in units of 2^-16, by the rule of
               `gpulsh.sketch.simhash.log2`; texts are read twice, and the distinct fingerprints of
               all are held with their counts
    =========  =========================================================================================================

    By "count" and "idf" the cosine is `gpulsh.cosine` of the weights of `gpulsh.weigh`. Sums are integers, so bits are
    the same everywhere; a document without a shingle has no bit set. The hyperplanes have coordinates 1 and -1, which
    is enough for documents with some hundred shingles. With fewer, ties are frequent, and estimates exceed the cosine.
    Source: Charikar 2002, *Similarity estimation techniques from rounding algorithms*; Manku, Jain, Das Sarma 2007,
    *Detecting near-duplicates for web crawling*, section 2.
    Raises ParameterError for other `weights`, `bits` other than multiples of 64 up to 384, `seed` above 2^64 - 1.

    >>> from gpulsh.text.documents import shingle
    >>> sketch = SimHash(bits=128)
    >>> signatures = sketch(shingle(["a b c d e f g h", "A b, c d e: f g h!"]), backend="cpu")
    >>> signatures.shape, sketch.estimate(signatures, [[0, 1]], backend="cpu")
    ((2, 2), array([1.]))
    """

    weights: Weights = "set"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weights", self.weights, get_args(Weights))

    def __call__(
        self, fingerprints: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> BitSignatures:
        """BitSignatures [n, bits / 64] of Fingerprints of n rows; by `"idf"`, these n are all documents.

        Raises ParameterError for any other object.
        """
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        with ops.here():
            there = fingerprints.moved(ops.asarray)
            if self.weights == "idf":
                return self._by_frequency(lambda: [there], ops)
            rows = ops.unique(there) if self.weights == "set" else there
            return BitSignatures(ops.simhash(rows, keys_of(self.bits, self.seed)), maker=self)

    def _of_documents(self, documents: Documents) -> BitSignatures:
        ops, how = documents.ops, (documents.shingling, keys_of(self.bits, self.seed), self.weights == "set")
        if self.weights == "idf":
            return self._by_frequency(documents.fingerprints, ops)
        none = ops.asarray(np.empty((0, self.bits // WORD_BITS), np.uint64))
        parts = [ops.text_simhash(batch, *how) for batch in documents.batches()]
        return BitSignatures(np.concatenate([none, *parts]), maker=self)

    def near(self, distance: int) -> NearBits:
        """The rule of a run that signatures differ in at most `distance` bits.

        Raises ParameterError if `weights` is "idf", and for a distance that takes too many tables.
        """
        if self.weights == "idf":
            raise ParameterError("weights is 'idf', which needs all documents at once; give 'set' or 'count'")
        return NearBits(bits=self.bits, weights=self.weights, seed=self.seed, distance=distance)

    def _by_frequency(self, batches: Callable[[], Iterable[Fingerprints]], ops: Backend) -> BitSignatures:
        frequencies = DocumentFrequencies()
        for rows in map(ops.unique, batches()):
            frequencies.add(rows)
        parts = [ops.simhash(rows, keys_of(self.bits, self.seed), frequencies.weights(rows)) for rows in batches()]
        return BitSignatures(np.concatenate(parts), maker=self)


def keys_of(bits: int, seed: int) -> NDArray[np.uint64]:
    """The key of each word of bits, which is combined with fingerprints."""
    return stream("simhash", seed, bits // WORD_BITS)
