"""Documents whose fingerprints can be read again: what every comparing stage asks of them, and runs of them.

Fingerprints take more room than the text they are made of, so none are kept: who compares documents reads those it has
room for, as often as it needs them. A run shingles its texts again (`shingled_texts`), an index has the sets in its
files (`index.readable`).


Chosen documents shingled again from their texts, as the comparing stages ask for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from gpulsh.arrays import Array, Fingerprints, Numbers, TextBatch
from gpulsh.backends.parts import halves_of_numbers, in_fitting_halves
from gpulsh.backends.protocol import Backend
from gpulsh.io.normalize import normalized
from gpulsh.io.source import ChosenTexts
from gpulsh.method import Method
from gpulsh.params import NearBits
from gpulsh.ragged import cuts, end_to_end, offsets
from gpulsh.secret import EvidenceKeys
from gpulsh.sketch.simhash import keys_of

Result = TypeVar("Result")

TEXT_OF_A_SHINGLE = 7  # bytes; only the sizes of bitmaps and of tables of counts depend on it


@dataclass(frozen=True)
class Readable(ABC):
    """Documents whose fingerprints can be read, by place, as often as need be."""

    chosen: Numbers  # [places] which of all documents stand at each place
    ops: Backend

    def on(self, ops: Backend) -> Self:
        """The same documents, read by another backend."""
        return replace(self, ops=ops)

    def renumbered(self, places: Numbers) -> Self:
        """The same documents by other numbers: new place i is place `places[i]` here."""
        return replace(self, chosen=self.chosen[places])

    @abstractmethod
    def text_sizes(self) -> Numbers:
        """int64 [places]: about the bytes of text of each, by which work is measured."""

    @abstractmethod
    def fingerprints(self, places: Numbers) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order, on the backend's device."""

    @abstractmethod
    def fingerprints_by_range(self, places: Numbers, parts: int) -> Iterator[Fingerprints]:
        """The same in `parts` equal ranges of values, one after another, for documents larger than the device."""

    @abstractmethod
    def frequencies(self, places: Numbers, counts: Array) -> Array:
        """`counts` plus those of the fingerprints of the documents at `places`, as the backend's `frequencies`."""

    @abstractmethod
    def prefixes(self, places: Numbers, counts: Array, rare: int, share: float) -> tuple[Fingerprints, Array]:
        """The prefixes of the documents at `places` and how many fingerprints each has, as `text_prefixes` has it."""

    @abstractmethod
    def overlaps(self, places: Numbers, known: Fingerprints) -> tuple[Array, Array]:
        """What the documents at `places` have in common with those `known`, as `text_overlaps` has it."""


def in_runs(
    places: Numbers, text_sizes: Numbers, most: int, read: Callable[[Numbers], Result]
) -> Iterator[tuple[Numbers, Result]]:
    """(some of `places`, `read` of them), in order, each of at most `most` bytes of text; halves of what does not fit.

    DeviceMemoryError where a document alone does not.
    """
    for first, last in cuts(offsets(text_sizes[places]), most):
        yield from in_fitting_halves(places[first:last], read, halves_of_numbers)


def row_sizes(fingerprints: Fingerprints, ops: Backend) -> Numbers:
    """int64 [n]: how many fingerprints each row has."""
    sizes: Numbers = ops.asnumpy(fingerprints.lengths)
    return sizes


@dataclass(frozen=True)
class ShingledTexts(Readable):
    """Documents of a choice of texts.

    Their fingerprints are evidence, under the secret keys `evidence`; public where the method asks for no proof, so
    that what it decides can be reproduced.
    """

    texts: ChosenTexts
    method: Method
    evidence: EvidenceKeys | None

    @property
    def keys(self) -> EvidenceKeys | None:
        """Those that fingerprints are computed under."""
        return self.evidence if self.method.verify == "exact" else None

    def text_sizes(self) -> Numbers:
        """int64 [places]: bytes of UTF-8."""
        return self.texts.sizes()[self.chosen]

    def fingerprints(self, places: Numbers) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order."""
        return self.ops.shingle_sets(self._batch(places), self.method.reading, self.keys)

    def fingerprints_by_range(self, places: Numbers, parts: int) -> Iterator[Fingerprints]:
        """The same in `parts` equal ranges of values, one after another; one text is held at a time."""
        for part in range(parts):
            one_by_one = (self._batch(places[at : at + 1]) for at in range(len(places)))
            asked = self.method.reading, part, parts, self.keys
            yield end_to_end([self.ops.shingle_part(one, *asked) for one in one_by_one])

    def simhash(self, places: Numbers, near: NearBits) -> Array:
        """uint64 [m, bits / 64]: SimHash signatures of the documents at `places`, of public fingerprints."""
        asked = self.method.reading, keys_of(near.bits, near.seed), near.weights == "set"
        return self.ops.text_simhash(self._batch(places), *asked)

    def frequencies(self, places: Numbers, counts: Array) -> Array:
        """`counts` plus those of the fingerprints of the documents at `places`."""
        return self.ops.text_frequencies(self._batch(places), self.method.reading, counts, self.keys)

    def prefixes(self, places: Numbers, counts: Array, rare: int, share: float) -> tuple[Fingerprints, Array]:
        """The prefixes of the documents at `places`, and how many fingerprints each has."""
        return self.ops.text_prefixes(self._batch(places), self.method.reading, counts, rare, share, self.keys)

    def overlaps(self, places: Numbers, known: Fingerprints) -> tuple[Array, Array]:
        """What the documents at `places` have in common with those `known`, and how many fingerprints each has."""
        return self.ops.text_overlaps(self._batch(places), self.method.reading, known, self.keys)

    def _batch(self, places: Numbers) -> TextBatch:
        return normalized(self.texts.take(self.chosen[places]), self.method.folding.form)
