"""Documents whose fingerprints the comparing stages read, as often as they need them.

Fingerprints take more memory than their text, so gpulsh does not keep them: a stage reads the documents that it has
room for. A run shingles its texts again (`ShingledTexts`); an index has the sets in its files (`index.admission`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeVar

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Numbers, TextBatch
from gpulsh.backends.parts import run_in_fitting_halves
from gpulsh.backends.protocol import Backend, prefix_lengths
from gpulsh.io.rows import ChosenTexts, normalized
from gpulsh.method import Method
from gpulsh.params import NearBits
from gpulsh.ragged import concat_rows, offsets, row_ranges
from gpulsh.secret import EvidenceKeys
from gpulsh.sketch.simhash import word_keys

Result = TypeVar("Result")

TEXT_OF_A_SHINGLE = 7  # bytes; only the sizes of bitmaps and of tables of counts depend on it


@dataclass(frozen=True)
class FingerprintSource(ABC):
    """Documents by place, in NumPy's memory or the backend's, whose fingerprints can be read any number of times."""

    chosen: Array  # int64 [places] the document at each place
    ops: Backend

    def select(self, places: Array) -> Self:
        """The documents at `places`: new place i is place `places[i]` here."""
        return replace(self, chosen=self.documents(places))

    def documents(self, places: Array) -> Array:
        """int64 [m]: the documents at `places`, in the backend's memory."""
        return self.ops.asarray(self.chosen)[self.ops.asarray(places)]

    @property
    def is_on_device(self) -> bool:
        """Whether a device holds the texts."""
        return False

    @abstractmethod
    def text_sizes(self) -> Array:
        """int64 [places]: about the bytes of text of each document; stages measure their work by them."""

    @abstractmethod
    def fingerprints(self, places: Array) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order, on the backend's device."""

    @abstractmethod
    def fingerprints_by_range(self, places: Array, parts: int) -> Iterator[Fingerprints]:
        """The fingerprints in `parts` equal ranges of values, in turn, for documents larger than the device."""

    def frequencies(self, places: Array, counts: Array) -> Array:
        """`counts` plus the counts of the fingerprints at `places`, as `Backend.frequencies` defines them."""
        return self.ops.frequencies(self.fingerprints(places), counts)

    def prefixes(self, places: Array, counts: Array, rare: int, share: float) -> tuple[Fingerprints, Array]:
        """`Backend.prefixes` of the fingerprints at `places`, of `prefix_lengths`; and the number of fingerprints."""
        sets = self.fingerprints(places)
        return self.ops.prefixes(sets, counts, prefix_lengths(sets.lengths, share), rare), sets.lengths


def read_in_runs(
    places: Numbers, text_sizes: Numbers, most: int, read: Callable[[Numbers], Result]
) -> Iterator[tuple[Numbers, Result]]:
    """(some of `places`, `read` of them) in order, each of at most `most` bytes of text, or halves that memory holds.

    Raises DeviceMemoryError if memory does not hold one document alone.
    """
    for first, last in row_ranges(offsets(text_sizes[places]), most):
        yield from run_in_fitting_halves(places[first:last], read, partial(np.array_split, indices_or_sections=2))


@dataclass(frozen=True)
class ShingledTexts(FingerprintSource):
    """Documents of a choice of texts, shingled again by the backend's fused passes.

    Their fingerprints are evidence, under the secret keys `evidence`; they are public where the method asks for no
    proof, so that its decision can be reproduced.
    """

    texts: ChosenTexts
    method: Method
    evidence: EvidenceKeys | None

    @property
    def keys(self) -> EvidenceKeys | None:
        """The keys of the fingerprints."""
        return self.evidence if self.method.verify == "exact" else None

    @property
    def is_on_device(self) -> bool:
        """Whether a device holds the texts."""
        return not isinstance(self.texts.sizes, np.ndarray)

    def text_sizes(self) -> Array:
        """int64 [places]: bytes of UTF-8."""
        return self.ops.asarray(self.texts.sizes)[self.ops.asarray(self.chosen)]

    def fingerprints(self, places: Array) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order."""
        return self.ops.shingle_sets(self._batch(places), self.method.backend_shingling, self.keys)

    def fingerprints_by_range(self, places: Array, parts: int) -> Iterator[Fingerprints]:
        """The fingerprints in `parts` equal ranges of values, one after another; holds one text at a time."""
        for part in range(parts):
            one_by_one = (self._batch(places[at : at + 1]) for at in range(len(places)))
            asked = self.method.backend_shingling, part, parts, self.keys
            yield concat_rows([self.ops.shingle_part(one, *asked) for one in one_by_one])

    def simhash(self, places: Array, near: NearBits) -> Array:
        """uint64 [m, bits / 64]: SimHash signatures of the documents at `places`, from public fingerprints."""
        asked = self.method.backend_shingling, word_keys(near.bits, near.seed), near.weights == "set"
        return self.ops.text_simhash(self._batch(places), *asked)

    def frequencies(self, places: Array, counts: Array) -> Array:
        """`counts` plus the counts of the shingles at `places`, each as often as its document has it."""
        return self.ops.frequencies(
            self.ops.shingle(self._batch(places), self.method.backend_shingling, self.keys), counts
        )

    def _batch(self, places: Array) -> TextBatch:
        chosen = self.documents(places)
        if not self.is_on_device:
            chosen = self.ops.asnumpy(chosen)
        return normalized(self.texts.take(chosen), self.method.folding.form)
