"""`gpulsh.SimHash`: bits that differ more often, the wider the angle between the weights of two documents.

Weights by rarity are whole numbers, which are the same on every machine.
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
from gpulsh.checks import check_choice, check_type
from gpulsh.errors import ParameterError
from gpulsh.params import NearBits
from gpulsh.permutations import stream
from gpulsh.ragged import first_of_runs, own_values
from gpulsh.sketch.base import TextSketch
from gpulsh.sketch.bits import WORD_BITS, BitSketch
from gpulsh.text.documents import Documents

FRACTION = 16  # bits of a logarithm after the point


def log2(numbers: Array) -> Array:
    """floor(2^16 log2) of int64 numbers from 1 to 2^31 - 1, up to the error of a rule in whole numbers.

    The rule multiplies the number by the power of two that brings y into [2^31, 2^32). Then, 16 times, y becomes
    y * y >> 31. If that is 2^32 or more, it is halved, and the next bit of the fraction, from the highest on, is set.

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
               `gpulsh.sketch.simhash.log2`; texts are read twice, and the fingerprints of all are held
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
        with ops.use_device():
            there = fingerprints.moved(ops.asarray)
            if self.weights == "idf":
                return self._weigh_by_frequency(lambda: [there], ops)
            rows = ops.unique(there) if self.weights == "set" else there
            return BitSignatures(ops.simhash(rows, word_keys(self.bits, self.seed)), maker=self)

    def _sketch_documents(self, documents: Documents) -> BitSignatures:
        ops, how = documents.ops, (documents.shingling, word_keys(self.bits, self.seed), self.weights == "set")
        if self.weights == "idf":
            return self._weigh_by_frequency(documents.fingerprints, ops)
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

    def _weigh_by_frequency(self, batches: Callable[[], Iterable[Fingerprints]], ops: Backend) -> BitSignatures:
        values, frequency, documents = _frequent_fingerprints(map(ops.unique, batches()))
        keys, parts = word_keys(self.bits, self.seed), []
        for rows in batches():
            found = np.ones_like(rows.values, np.int64)
            if len(values):
                place = np.minimum(np.searchsorted(values, rows.values), len(values) - 1)
                found = np.where(values[place] == rows.values, frequency[place], found)
            most = int(found.max()) if len(found) else 1
            logarithms = log2(np.arange(1, most + 1, dtype=np.int64, like=found))
            weights = int(log2(np.array([documents + 1]))[0]) - logarithms[found - 1]
            parts.append(ops.simhash(rows, keys, weights))
        return BitSignatures(np.concatenate(parts), maker=self)


def _frequent_fingerprints(batches: Iterable[Fingerprints]) -> tuple[Array, Array, int]:
    """The fingerprints that several documents have, ascending, and how many have each, from unique rows; all documents.

    Most fingerprints are of one document: it pays to search among the others.
    """
    parts, documents = list[Array](), 0
    for rows in batches:
        parts.append(own_values(rows))
        documents += len(rows)
    values = np.concatenate(parts)
    parts.clear()
    values.sort()
    begins = np.flatnonzero(first_of_runs(values))
    counts = np.searchsorted(values, values[begins], side="right") - begins
    return values[begins[counts > 1]], counts[counts > 1], documents


def word_keys(bits: int, seed: int) -> NDArray[np.uint64]:
    """The key of each word of bits, which is combined with fingerprints."""
    return stream("simhash", seed, bits // WORD_BITS)
