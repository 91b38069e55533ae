"""The operations in Numba: threads take chunks, and a chunk stays in the cache from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from functools import partial, wraps
from typing import Concatenate, ParamSpec

import numpy as np

from gpulsh.arrays import Array, Fingerprints, on_host
from gpulsh.backends.composed import one_pass
from gpulsh.backends.cpu.buckets import band_digests, candidates, collisions, components
from gpulsh.backends.cpu.intersect import bitmaps, intersect, overlap_bounds, text_overlaps
from gpulsh.backends.cpu.prefixes import frequencies, prefixes, text_frequencies, text_prefixes
from gpulsh.backends.cpu.shingle import exact_hashes, shingle, shingle_part, shingle_sets, sign, text_signatures
from gpulsh.backends.cpu.simhash import simhash, text_simhash
from gpulsh.backends.cpu.sketches import sketch_of
from gpulsh.backends.cpu.sketches.minima import Minima
from gpulsh.backends.cpu.texts import gather, sha1
from gpulsh.backends.cpu.threads import MEMORY, Threads, by_count, by_weight
from gpulsh.backends.cpu.tokens import shingles, tokens
from gpulsh.backends.cpu.unique import unique
from gpulsh.backends.cpu.weighted import kleinberg_tardos, occurrences, weighted_minhash, weighted_overlap
from gpulsh.backends.parallel import pipelined_map, processors
from gpulsh.backends.protocol import Backend, Item, Result, Sizes, SketchFold
from gpulsh.params import Family

PIPELINED = 2  # items in work
CHUNK_SHINGLES = 1 << 16  # that a thread sketches
SIZES = Sizes(batch=16 << 20, tile=2 << 20, largest_tile=64 << 20, whole=512 << 20)  # at most

Given = ParamSpec("Given")


def _method(
    operation: Callable[Concatenate[Threads, Given], Result],
) -> Callable[Concatenate[CpuBackend, Given], Result]:
    """An operation on threads as a method, on the threads of the backend."""

    @wraps(operation)
    def run(self: CpuBackend, /, *given: Given.args, **named: Given.kwargs) -> Result:
        return operation(self.threads, *given, **named)

    return run


class ThreadedSketch:
    """A sketch as a `SketchFold`: threads fold rows in chunks of about as many shingles each."""

    def __init__(self, sketch: Minima, threads: Threads) -> None:
        self._sketch, self._threads = sketch, threads
        self.empty, self.merge, self.finish = sketch.empty, sketch.merge, sketch.finish

    def fold(self, fingerprints: Fingerprints) -> Array:
        rows = fingerprints.moved(np.ascontiguousarray)
        state = np.empty((len(rows), self._sketch.columns), self._sketch.dtype)

        def work(start: int, stop: int) -> None:
            self._sketch.fold_into(rows.slice(start, stop), state[start:stop])

        self._threads.map(work, by_weight(rows.offset, CHUNK_SHINGLES))
        return state


class CpuBackend(Backend):
    """Numba kernels on `threads` threads; None uses every processor this process may run on.

    `memory` is the bytes that the run may use; texts are handed over in parts of it.
    """

    name = "cpu"

    asarray = staticmethod(on_host)
    asnumpy = staticmethod(on_host)
    here = staticmethod(nullcontext)
    gather = staticmethod(gather)
    sha1 = _method(sha1)
    tokens = _method(tokens)
    shingles = _method(shingles)
    shingle = one_pass(_method(shingle))
    shingle_sets = one_pass(_method(shingle_sets))
    shingle_part = one_pass(_method(shingle_part))
    exact_hashes = _method(exact_hashes)
    unique = _method(unique)
    band_digests = _method(band_digests)
    collisions = _method(collisions)
    candidates = _method(candidates)
    components = staticmethod(components)
    intersect = _method(intersect)
    bitmaps = _method(bitmaps)
    overlap_bounds = _method(overlap_bounds)
    frequencies = staticmethod(frequencies)
    prefixes = _method(prefixes)
    occurrences = _method(occurrences)
    weighted_overlap = _method(weighted_overlap)
    weighted_minhash = _method(weighted_minhash)
    kleinberg_tardos = _method(kleinberg_tardos)
    simhash = _method(simhash)
    text_frequencies = one_pass(_method(text_frequencies))
    text_prefixes = one_pass(_method(text_prefixes))
    text_overlaps = one_pass(_method(text_overlaps))
    text_simhash = one_pass(_method(text_simhash))
    text_signatures = one_pass(_method(text_signatures))
    sign = one_pass(_method(sign))

    def __init__(self, threads: int | None = None, memory: int = MEMORY) -> None:
        self.threads = Threads(threads or processors(), memory)

    def sizes(self) -> Sizes:
        most, memory = SIZES, self.threads.memory
        batch, largest_tile = min(most.batch, memory >> 7), min(most.largest_tile, memory >> 5)
        return Sizes(batch, most.tile, largest_tile, most.readers, min(most.whole, memory >> 4) if most.whole else None)

    def set_sketch(self, family: Family) -> SketchFold:
        return ThreadedSketch(sketch_of(family), self.threads)

    def pipelined_map(self, items: Iterable[Item], work: Callable[[Backend, Item], Result]) -> Iterator[Result]:
        if self.threads.count == 1 or (isinstance(items, Sequence) and len(items) < 2):
            return map(partial(work, self), items)  # which holds no item while the next one is made

        def in_lane(item: Item) -> Result:
            with self.threads.lane() as threads:
                return work(self._on(threads), item)

        # While the threads work at two items, the next is decoded; threads that one leaves idle help the other.
        return pipelined_map(items, [in_lane] * PIPELINED)

    def parallel_map(self, items: Sequence[Item], work: Callable[[Backend, Item], Result]) -> Iterable[Result]:
        alone = self._on(Threads(1, self.threads.memory))
        return self.threads.map(lambda place, _: work(alone, items[place]), by_count(len(items), 1))

    def keep(self, array: Array) -> Array:
        return array

    def _on(self, threads: Threads) -> CpuBackend:
        """This backend on other threads."""
        other = copy(self)
        other.threads = threads
        return other
