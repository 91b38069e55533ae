"""The operations in Numba: threads take chunks, and a chunk stays in the cache from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from functools import partial, wraps
from threading import Lock
from typing import Concatenate, ParamSpec

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signed, TextBatch, WeightedFingerprints, on_host
from gpulsh.backends.composed import one_pass
from gpulsh.backends.cpu.band_digests import band_digests
from gpulsh.backends.cpu.bitmaps import bitmaps, overlap_bounds
from gpulsh.backends.cpu.candidates import candidates
from gpulsh.backends.cpu.chunks import Threads, by_count
from gpulsh.backends.cpu.collisions import collisions
from gpulsh.backends.cpu.components import components
from gpulsh.backends.cpu.gather import gather
from gpulsh.backends.cpu.giants import giant_pieces, is_giant, one_row, text_chunks
from gpulsh.backends.cpu.intersect import intersect
from gpulsh.backends.cpu.overlaps import text_overlaps
from gpulsh.backends.cpu.prefixes import frequencies, prefix_rows, prefixes
from gpulsh.backends.cpu.room import Room
from gpulsh.backends.cpu.set_sketch import ThreadedSketch
from gpulsh.backends.cpu.sha1 import sha1
from gpulsh.backends.cpu.shingle import exact_hashes, set_rows, shingle, shingle_part, shingle_rows, shingle_sets
from gpulsh.backends.cpu.sign import sign_rows
from gpulsh.backends.cpu.simhash import simhash, text_simhash
from gpulsh.backends.cpu.sketches import sketch_of
from gpulsh.backends.cpu.tokens import shingles, tokens
from gpulsh.backends.cpu.unique import unique
from gpulsh.backends.cpu.weighted import occurrences, weighted_overlap
from gpulsh.backends.cpu.weighted_minhash import kleinberg_tardos, weighted_minhash
from gpulsh.backends.parallel import pipelined_map, processors
from gpulsh.backends.prefixes import prefix_lengths
from gpulsh.backends.protocol import Backend, Item, Result, Sizes, SketchFold
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.secret import EvidenceKeys

PIPELINED = 2  # items in work

SIZES = Sizes(batch=16 << 20, tile=2 << 20, largest_tile=64 << 20, whole=512 << 20)  # at most
MEMORY = 8 << 30  # bytes that a run may take where nothing is given
SETS = 6  # of 2^6 bytes a fingerprint is in a set: 16 for each of two items in work, and as much for their texts

Given = ParamSpec("Given")


def _method(
    operation: Callable[Concatenate[Threads, Given], Result],
) -> Callable[Concatenate[CpuBackend, Given], Result]:
    """An operation on threads as a method, on those of the backend."""

    @wraps(operation)
    def run(self: CpuBackend, /, *given: Given.args, **named: Given.kwargs) -> Result:
        return operation(self.threads, *given, **named)

    return run


class CpuBackend(Backend):
    """Numba kernels on `threads` threads; None takes every processor this process may run on.

    `memory` is what the run may take in all: texts are handed over in parts of it.
    """

    name = "cpu"

    components = staticmethod(components)
    frequencies = staticmethod(frequencies)
    gather = staticmethod(gather)
    asarray = staticmethod(on_host)
    asnumpy = staticmethod(on_host)
    here = staticmethod(nullcontext)
    tokens = _method(tokens)
    shingles = _method(shingles)
    shingle = one_pass(_method(shingle))
    exact_hashes = _method(exact_hashes)
    unique = _method(unique)
    band_digests = _method(band_digests)
    collisions = _method(collisions)
    candidates = _method(candidates)
    intersect = _method(intersect)
    bitmaps = _method(bitmaps)
    overlap_bounds = _method(overlap_bounds)
    prefixes = _method(prefixes)
    sha1 = _method(sha1)
    simhash = _method(simhash)
    text_simhash = one_pass(_method(text_simhash))

    def __init__(self, threads: int | None = None, memory: int = MEMORY) -> None:
        self.threads = Threads(threads or processors())
        self._memory = memory

    def sizes(self) -> Sizes:
        most, memory = SIZES, self._memory
        batch, largest_tile = min(most.batch, memory >> 7), min(most.largest_tile, memory >> 5)
        return Sizes(batch, most.tile, largest_tile, most.readers, min(most.whole, memory >> 4) if most.whole else None)

    def _room_of(self, text: TextBatch) -> Room:
        """For sets: of a document alone that is asked for whatever its size; several are asked for in smaller parts."""
        return Room(self._memory >> SETS) if len(text) > 1 else Room()

    @one_pass
    def shingle_sets(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
        return shingle_sets(text, shingling, self.threads, self._room_of(text), keys)

    @one_pass
    def shingle_part(
        self, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: EvidenceKeys | None = None
    ) -> Fingerprints:
        return shingle_part(text, shingling, part, parts, keys, self.threads, Room(self._memory >> SETS + 1))

    def set_sketch(self, family: Family) -> SketchFold:
        return ThreadedSketch(sketch_of(family), self.threads)

    def occurrences(self, fingerprints: Fingerprints) -> WeightedFingerprints:
        return occurrences(fingerprints, self.threads)

    def weighted_overlap(self, pairs: Array, rows: WeightedFingerprints) -> tuple[Array, Array]:
        return weighted_overlap(pairs, rows, self.threads)

    def weighted_minhash(self, rows: WeightedFingerprints, num_perm: int, seed: int) -> Array:
        return weighted_minhash(rows, num_perm, seed, self.threads)

    def kleinberg_tardos(self, rows: Array, num_perm: int, seed: int) -> Array:
        return kleinberg_tardos(rows, num_perm, seed, self.threads)

    @one_pass
    def text_frequencies(
        self, text: TextBatch, shingling: Shingling, counts: Array, keys: EvidenceKeys | None = None
    ) -> Array:
        counting = Lock()

        def work(start: int, stop: int) -> None:
            pieces: Iterable[Fingerprints]
            if is_giant(text, start, stop):
                pieces = map(one_row, giant_pieces(text, start, shingling, keys))
            else:
                pieces = [shingle_rows(text, start, stop, shingling, keys)[0]]
            for rows in pieces:
                with counting:  # one thread counts while the others shingle
                    frequencies(rows, counts)

        self.threads.map(work, text_chunks(text.offset, self.threads))
        return counts

    @one_pass
    def text_prefixes(
        self,
        text: TextBatch,
        shingling: Shingling,
        counts: Array,
        rare: int,
        share: float,
        keys: EvidenceKeys | None = None,
    ) -> tuple[Fingerprints, Array]:
        sizes = np.empty(len(text), np.int64)
        room = self._room_of(text)

        def work(start: int, stop: int) -> Fingerprints:
            # While its sets are in the cache; only their prefixes outlive a chunk.
            sets = set_rows(text, start, stop, shingling, room, keys)
            sizes[start:stop] = sets.lengths
            chosen = prefix_rows(sets, counts, prefix_lengths(sizes[start:stop], share), rare)
            room.take(len(chosen.values) - len(sets.values))
            return chosen

        return self.threads.rows(work, text_chunks(text.offset, self.threads)), sizes

    @one_pass
    def text_overlaps(
        self, text: TextBatch, shingling: Shingling, known: Fingerprints, keys: EvidenceKeys | None = None
    ) -> tuple[Array, Array]:
        return text_overlaps(text, shingling, known, self.threads, self._room_of(text), keys)

    @one_pass
    def text_signatures(self, text: TextBatch, shingling: Shingling, family: Family) -> Array:
        signatures, sketch = np.empty((len(text), family.num_perm), family.value_type), sketch_of(family)

        def work(start: int, stop: int) -> None:
            sign_rows(text, start, stop, shingling, sketch, signatures[start:stop])

        self.threads.map(work, text_chunks(text.offset, self.threads))
        return signatures

    @one_pass
    def sign(
        self, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape, keys: EvidenceKeys
    ) -> Signed:
        count = len(text)
        digests = np.empty((shape.bands, count), np.uint64).T  # band after band, as they are read later
        signed = Signed(digests, np.empty((count, 2), np.uint64), np.empty(count, np.int64))
        one, sketch = Threads(1), sketch_of(family)

        def work(start: int, stop: int) -> None:
            # A chunk passes all stages on one thread; only what `signed` holds outlives it.
            signatures = np.empty((stop - start, family.num_perm), family.value_type)
            rows = sign_rows(text, start, stop, shingling, sketch, signatures, proof=keys)
            signed.digests[start:stop] = band_digests(one, signatures, shape)
            signed.exact[start:stop] = rows.exact
            signed.shingles[start:stop] = rows.shingles

        self.threads.map(work, text_chunks(text.offset, self.threads))
        return signed

    def pipelined_map(self, items: Iterable[Item], work: Callable[[Backend, Item], Result]) -> Iterator[Result]:
        if self.threads.count == 1 or (isinstance(items, Sequence) and len(items) < 2):
            return map(partial(work, self), items)  # which holds no item while the next one is made

        def in_lane(item: Item) -> Result:
            with self.threads.lane() as threads:
                lane = copy(self)
                lane.threads = threads
                return work(lane, item)

        # While the threads are at two items, the next is decoded; what one leaves them idle for, the other fills.
        return pipelined_map(items, [in_lane] * PIPELINED)

    def parallel_map(self, items: Sequence[Item], work: Callable[[Backend, Item], Result]) -> Iterable[Result]:
        alone = copy(self)
        alone.threads = Threads(1)
        return self.threads.map(lambda place, _: work(alone, items[place]), by_count(len(items), 1))

    def keep(self, array: Array) -> Array:
        return array
