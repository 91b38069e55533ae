"""`gpulsh.SimHash`: bits in which two documents differ the more often, the wider the angle of their weights is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import BitSignatures, Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.params import NearBits, check_choice, check_type
from gpulsh.permutations import stream
from gpulsh.sketch.bits.bit_sketch import WORD_BITS, BitSketch
from gpulsh.sketch.bits.document_frequencies import DocumentFrequencies
from gpulsh.sketch.text_sketch import TextSketch
from gpulsh.text.documents import Documents

Weights = Literal["set", "count", "idf"]


@dataclass(frozen=True, kw_only=True)
class SimHash(TextSketch[BitSignatures], BitSketch):
    """A bit is 1 where the weights of the shingles whose hash has it are more than half of all; at a tie it is 0.

    =========  =========================================================================================================
    `weights`
    =========  =========================================================================================================
    `"set"`    each distinct shingle weighs 1: the cosine is |A and B| / sqrt(|A| |B|), as `gpulsh.cosine` has it
    `"count"`  each occurrence weighs 1
    `"idf"`    each occurrence weighs L(n + 1) - L(the documents of all n that have the shingle), where L is the
               logarithm to the base 2 in units of 2^-16, by the rule of
               `gpulsh.sketch.bits.document_frequencies.log2`; texts are read twice, and the distinct fingerprints of
               all are held with their counts
    =========  =========================================================================================================

    By "count" and "idf" the cosine is that of `gpulsh.weigh`, as `gpulsh.cosine` has it, too. Sums are of integers, so
    that bits are the same everywhere; a sum of 0 gives no bit. A document without a shingle has no bit set. Hyperplanes
    whose coordinates are 1 and -1 stand for all directions where documents have some hundred shingles; of fewer, ties
    are frequent, and estimates lie above the cosine. Source: Charikar 2002, *Similarity estimation techniques from
    rounding algorithms*; Manku, Jain, Das Sarma 2007, *Detecting near-duplicates for web crawling*, section 2.
    Raises ParameterError for other `weights`, `bits` that are no multiple of 64 up to 384, `seed` above 2^64 - 1.

    >>> from gpulsh.text.shingling import shingle
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
        """BitSignatures [n, bits / 64] of Fingerprints of n rows; by `"idf"`, documents are those n.

        Raises ParameterError where it is given anything else.
        """
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        with ops.here():
            there = fingerprints.moved(ops.asarray)
            if self.weights == "idf":
                return self._by_frequency(lambda: [there], ops)
            rows = ops.unique(there) if self.weights == "set" else there
            return BitSignatures(ops.simhash(rows, self._keys()), maker=self)

    def _of_documents(self, documents: Documents) -> BitSignatures:
        ops, shingling, distinct = documents.ops, documents.shingling, self.weights == "set"
        if self.weights == "idf":
            return self._by_frequency(documents.fingerprints, ops)
        none = ops.asarray(np.empty((0, self.bits // WORD_BITS), np.uint64))
        parts = [ops.text_simhash(batch, shingling, self._keys(), distinct) for batch in documents.batches()]
        return BitSignatures(np.concatenate([none, *parts]), maker=self)

    def near(self, distance: int) -> NearBits:
        """Documents whose signatures differ in at most `distance` bits, as a run asks for them.

        Raises ParameterError where `weights` is "idf", and for a distance that takes too many tables.
        """
        if self.weights == "idf":
            raise ParameterError("weights is 'idf', which only all documents together have; give 'set' or 'count'")
        return NearBits(bits=self.bits, weights=self.weights, seed=self.seed, distance=distance)

    def _by_frequency(self, batches: Callable[[], Iterable[Fingerprints]], ops: Backend) -> BitSignatures:
        frequencies = DocumentFrequencies()
        for rows in map(ops.unique, batches()):
            frequencies.add(rows)
        parts = [ops.simhash(rows, self._keys(), frequencies.weights(rows)) for rows in batches()]
        return BitSignatures(np.concatenate(parts), maker=self)

    def _keys(self) -> NDArray[np.uint64]:
        return keys_of(self.bits, self.seed)


def keys_of(bits: int, seed: int) -> NDArray[np.uint64]:
    """What a fingerprint is combined with for each word of bits."""
    return stream("simhash", seed, bits // WORD_BITS)
