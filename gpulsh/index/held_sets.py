"""The unique fingerprints of held documents and of new ones, in the form that comparisons read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Numbers, TextBatch
from gpulsh.backends.parts import halves_of_batch, in_fitting_halves, in_fitting_parts, in_part
from gpulsh.backends.protocol import Backend
from gpulsh.decide.readable import Readable
from gpulsh.index.blocks import in_places
from gpulsh.index.snapshot import Snapshot
from gpulsh.io.rows import gathered
from gpulsh.params import Shingling
from gpulsh.ragged import chosen_rows, end_to_end, offsets
from gpulsh.secret import EvidenceKeys

Read = Callable[[Numbers], Fingerprints]
TEXT_BYTES = 6  # about the text of one fingerprint; comparisons measure their work in bytes of text


@dataclass(frozen=True)
class HeldSets(Readable):
    """Documents for which `read` gives the unique fingerprints, in host memory."""

    read: Read
    text_bytes: Numbers  # about, of all documents, chosen or not

    @classmethod
    def of(cls, snapshot: Snapshot, held: Numbers, sets: Fingerprints, ops: Backend) -> HeldSets:
        """First the documents `held` [h], by number, then those of `sets`."""

        def read(places: Numbers) -> Fingerprints:
            old, new = np.flatnonzero(places < len(held)), np.flatnonzero(places >= len(held))
            if len(new) == 0:
                return snapshot.fingerprints(held[places])
            fresh = chosen_rows(sets, places[new] - len(held))
            return in_places([snapshot.fingerprints(held[places[old]]), fresh], [old, new]) if len(old) else fresh

        sizes = np.concatenate([snapshot.sizes(held), sets.lengths])
        return cls(np.arange(len(sizes)), ops, read, sizes * TEXT_BYTES)

    def text_sizes(self) -> Numbers:
        """int64 [places]: about the bytes of text of each."""
        return self.text_bytes[self.chosen]

    def fingerprints(self, places: Numbers) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order."""
        return self.read(self.chosen[places]).moved(self.ops.asarray)

    def fingerprints_by_range(self, places: Numbers, parts: int) -> Iterator[Fingerprints]:
        """The same in `parts` equal ranges of values, one after another."""
        whole = self.read(self.chosen[places])
        for part in range(parts):
            inside = in_part(whole.values, part, parts)
            yield Fingerprints(whole.values[inside], offsets(inside)[whole.offset]).moved(self.ops.asarray)


def fingerprint_sets(
    batch: TextBatch, rows: Numbers, shingling: Shingling, keys: EvidenceKeys, ops: Backend
) -> Fingerprints:
    """The unique fingerprints, as evidence, of the documents `rows` [m] of a batch, in host memory."""
    begin, end = batch.offset[rows], batch.offset[rows + 1]
    on_host = isinstance(batch.values, np.ndarray)
    texts = gathered(batch.values, begin, end) if on_host else ops.gather(batch.values, begin, end)

    def whole(part: TextBatch) -> Fingerprints:
        return ops.shingle_sets(part, shingling, keys).moved(ops.asnumpy)

    by_range = partial(_by_range, shingling=shingling, keys=keys, ops=ops)
    return end_to_end([sets for _, sets in in_fitting_halves(texts, whole, halves_of_batch, by_range)])


def _by_range(batch: TextBatch, shingling: Shingling, keys: EvidenceKeys, ops: Backend) -> Fingerprints:
    """One document in ranges of fingerprints, which ascend."""

    def found(parts: int) -> list[Array]:
        return [ops.asnumpy(ops.shingle_part(batch, shingling, part, parts, keys).values) for part in range(parts)]

    values = np.concatenate(in_fitting_parts(found, 2)[0])
    return Fingerprints(values, np.array([0, len(values)], np.int64))
