"""The oracle's operations as one `Backend`; operations that other backends do in one pass are compositions here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial

import numpy as np

from gpulsh.arrays import Array, Fingerprints, TextBatch, on_host
from gpulsh.backends.protocol import Backend, Item, Result, Sizes
from gpulsh.backends.reference.buckets import band_digests, candidates, collisions, components
from gpulsh.backends.reference.intersect import bitmaps, intersect, overlap_bounds, overlaps
from gpulsh.backends.reference.prefixes import frequencies, prefixes, rare_or_first
from gpulsh.backends.reference.shingle import exact_hashes, shingle, shingle_part, shingles
from gpulsh.backends.reference.simhash import simhash
from gpulsh.backends.reference.sketches import sketch_of
from gpulsh.backends.reference.texts import gather, sha1
from gpulsh.backends.reference.tokens import tokens
from gpulsh.backends.reference.unique import unique
from gpulsh.backends.reference.weighted import kleinberg_tardos, occurrences, weighted_minhash, weighted_overlap
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys

SIZES = Sizes(batch=1 << 20, tile=1 << 20, largest_tile=1 << 20)


class ReferenceBackend(Backend):
    """Plain Python and NumPy, one thread."""

    name = "reference"

    gather = staticmethod(gather)
    tokens = staticmethod(tokens)
    shingles = staticmethod(shingles)
    shingle = staticmethod(shingle)
    shingle_part = staticmethod(shingle_part)
    exact_hashes = staticmethod(exact_hashes)
    unique = staticmethod(unique)
    band_digests = staticmethod(band_digests)
    collisions = staticmethod(collisions)
    candidates = staticmethod(candidates)
    intersect = staticmethod(intersect)
    occurrences = staticmethod(occurrences)
    weighted_overlap = staticmethod(weighted_overlap)
    weighted_minhash = staticmethod(weighted_minhash)
    kleinberg_tardos = staticmethod(kleinberg_tardos)
    bitmaps = staticmethod(bitmaps)
    overlap_bounds = staticmethod(overlap_bounds)
    components = staticmethod(components)
    frequencies = staticmethod(frequencies)
    prefixes = staticmethod(prefixes)
    sha1 = staticmethod(sha1)
    simhash = staticmethod(simhash)
    set_sketch = staticmethod(sketch_of)
    asarray = staticmethod(on_host)
    asnumpy = staticmethod(on_host)
    here = staticmethod(nullcontext)

    def sizes(self) -> Sizes:
        return SIZES

    def text_prefixes(
        self,
        text: TextBatch,
        shingling: Shingling,
        counts: Array,
        rare: int,
        share: float,
        keys: EvidenceKeys | None = None,
    ) -> tuple[Fingerprints, Array]:
        sets = self.shingle_sets(text, shingling, keys)
        return prefixes(sets, counts, rare_or_first(sets, counts, rare, share)), np.diff(sets.offset)

    def text_overlaps(
        self, text: TextBatch, shingling: Shingling, known: Fingerprints, keys: EvidenceKeys | None = None
    ) -> tuple[Array, Array]:
        sets = self.shingle_sets(text, shingling, keys)
        return overlaps(sets, known), np.diff(sets.offset)

    def pipelined_map(self, items: Iterable[Item], work: Callable[[Backend, Item], Result]) -> Iterator[Result]:
        return map(partial(work, self), items)  # which holds no item while the next one is made

    parallel_map = pipelined_map

    def keep(self, array: Array) -> Array:
        return array
