"""Fingerprints of documents whose texts are gone, as the comparing stages ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, TextBatch
from gpulsh.backends.parts import in_fitting_parts, part_range
from gpulsh.backends.prefix_lengths import lengths_with_rare
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.comparison import MOST_PARTS
from gpulsh.errors import DeviceMemoryError
from gpulsh.index.segments.fingerprint_blocks import chosen_rows, end_to_end, in_places
from gpulsh.io.rows import gathered
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys

Read = Callable[[NDArray[np.int64]], Fingerprints]
TEXT_BYTES = 6  # about the text of one fingerprint: what the comparing stages measure their work by


class HeldDocuments:
    """`decide.compare.comparison.Readable` over `read`, which gives unique fingerprints of documents, on the host."""

    def __init__(self, read: Read, places: NDArray[np.int64], ops: Backend) -> None:
        self._read, self._places, self._ops = read, places, ops

    def on(self, ops: Backend) -> HeldDocuments:
        """The same documents, on another backend."""
        return HeldDocuments(self._read, self._places, ops)

    def renumbered(self, places: NDArray[np.int64]) -> HeldDocuments:
        """The same documents by other numbers: new place i is place `places[i]` here."""
        return HeldDocuments(self._read, self._places[places], self._ops)

    def fingerprints(self, places: NDArray[np.int64]) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order."""
        return self._read(self._places[places]).moved(self._ops.asarray)

    def fingerprints_by_range(self, places: NDArray[np.int64], parts: int) -> Iterator[Fingerprints]:
        """The same in `parts` equal ranges of values, one after another."""
        whole = self._read(self._places[places])
        for part in range(parts):
            first, last = map(np.uint64, part_range(part, parts))
            inside = (whole.values >= first) & (whole.values <= last)
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(inside)])
            yield Fingerprints(whole.values[inside], before[whole.offset]).moved(self._ops.asarray)

    def frequencies(self, places: NDArray[np.int64], counts: Array) -> Array:
        """`counts` plus those of the fingerprints of the documents at `places`."""
        return self._ops.frequencies(self.fingerprints(places), counts)

    def prefixes(self, places: NDArray[np.int64], counts: Array, rare: int, share: float) -> tuple[Fingerprints, Array]:
        """The prefixes of the documents at `places`, and how many fingerprints each has."""
        sets = self.fingerprints(places)
        lengths = lengths_with_rare(sets, counts, rare, share)
        return self._ops.prefixes(sets, counts, lengths), np.diff(sets.offset)


def of_both(places: NDArray[np.int64], base: int, held: Read, sets: Fingerprints) -> Fingerprints:
    """Documents at `places`: those below `base` as `held` gives them, row `place - base` of `sets` else."""
    old, new = np.flatnonzero(places < base), np.flatnonzero(places >= base)
    if len(new) == 0:
        return held(places)
    fresh = chosen_rows(sets, places[new] - base)
    if len(old) == 0:
        return fresh
    return in_places([held(places[old]), fresh], [old, new])


def fingerprint_sets(
    batch: TextBatch, rows: NDArray[np.int64], shingling: Shingling, keys: EvidenceKeys, ops: Backend
) -> Fingerprints:
    """The unique fingerprints, as evidence, of the documents `rows` [m] of a batch, in host memory."""
    begin, end = batch.offset[rows], batch.offset[rows + 1]
    on_host = isinstance(batch.values, np.ndarray)
    chosen = gathered(batch.values, begin, end) if on_host else ops.gather(batch.values, begin, end)
    return _sets(chosen, shingling, keys, ops)


def _sets(batch: TextBatch, shingling: Shingling, keys: EvidenceKeys, ops: Backend) -> Fingerprints:
    try:
        return ops.shingle_sets(batch, shingling, keys).moved(ops.asnumpy)
    except DeviceMemoryError:
        if len(batch) < 2:
            return _by_range(batch, shingling, keys, ops)
    half = len(batch) // 2
    halves = batch.slice(0, half), batch.slice(half, len(batch))
    return end_to_end([_sets(part, shingling, keys, ops) for part in halves])


def _by_range(batch: TextBatch, shingling: Shingling, keys: EvidenceKeys, ops: Backend) -> Fingerprints:
    """One document in ranges of fingerprints, which ascend."""

    def found(parts: int) -> list[Array]:
        return [ops.asnumpy(ops.shingle_part(batch, shingling, part, parts, keys).values) for part in range(parts)]

    values = np.concatenate(in_fitting_parts(found, 2, MOST_PARTS)[0])
    return Fingerprints(values, np.array([0, len(values)], np.int64))
