"""Documents whose fingerprints can be read again: what every comparing stage asks of them, and runs of them.

Fingerprints take more room than the text they are made of, so none are kept: who compares documents reads those it has
room for, as often as it needs them. A run shingles its texts again (`shingled_texts`), an index has the sets in its
files (`index.readable`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from gpulsh.arrays import Array, Fingerprints, Numbers
from gpulsh.backends.parts import halves_of_numbers, in_fitting_halves
from gpulsh.backends.protocol import Backend
from gpulsh.ragged import cuts, offsets

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
