"""Set sketches on the device, and the way from tokens to band digests.

MinHash: minima in the registers of a warp's lanes, over spans of fingerprints across the borders of rows.
`MinHash.digests` goes from token sums to band digests: the hot path of `sign`, without fingerprints or signatures in
memory. FunctionMinima: a column per lane. FastSimilarity, OnePermutation: an atomic minimum each, then a block
or a warp per document for bins that stayed empty. SplitmixRounds: a block per document.

Weighted rows. occurrences: radix sorts of the array module; weighted_overlap: a thread per pair. weighted_minhash: a
block per row; kleinberg_tardos: a thread per function of a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpulsh.arrays import Array, Fingerprints, WeightedFingerprints
from gpulsh.backends.cuda.buckets import band_digests
from gpulsh.backends.cuda.launcher import LANES, Argument
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.texts import TokenSums, shingle_sums
from gpulsh.backends.darts import Streams, logarithms
from gpulsh.backends.hashing import FUNCTIONS, function_tables, rounds_joined
from gpulsh.backends.protocol import NO_DIGEST, NO_VALUE, THROWS, SketchFold
from gpulsh.params import BandShape, Family
from gpulsh.permutations import Coefficients, coefficients, word_array, word_pairs, words
from gpulsh.ragged import first_of_runs

MAX_COLUMNS = 512  # the longest signature that fits the shared memory of `sketch`


def set_sketch(machine: Machine, family: Family) -> Minima:
    """The random words of a family are uploaded once."""
    found: Minima = machine.sketch(SKETCHES[family.sketch], family)
    return found


class Minima(SketchFold):
    """A minimum per column: states merge by the smaller value, all ones mean none. The device must be current."""

    dtype: type[np.unsignedinteger] = np.uint32

    def __init__(self, machine: Machine, family: Family) -> None:
        self.machine, self.columns = machine, family.num_perm

    def empty(self, rows: int) -> Array:
        return self.machine.arrays.full((rows, self.columns), self.dtype(np.iinfo(self.dtype).max), self.dtype)

    def merge(self, state: Array, other: Array) -> Array:
        return self.machine.arrays.minimum(state, other)

    def finish(self, state: Array) -> Array:
        return state

    def by_spans(
        self, file: str, fingerprints: Fingerprints, *drawn: Argument, kernel: str = "", rows: int = 1
    ) -> Array:
        """New minima, lowered by a kernel that takes a span of fingerprints per warp, across the borders of sets."""
        minima, offset = self.empty(len(fingerprints)), fingerprints.offset
        total, span = self.machine.number(offset[-1] - offset[0]), self.machine.geometry.span
        given = fingerprints.values, offset, len(fingerprints), *drawn, self.columns, span, minima
        self.machine.run(file, total, *given, kernel=kernel, per="span", rows=rows)
        return minima

    def digests(self, tokens: TokenSums, size: int, shape: BandShape) -> tuple[Array, Array]:
        """Band digests uint64 [n, bands] and numbers of shingles int64 [n], under public keys.

        A sketch may override it with a kernel that does not write the fingerprints.
        """
        fingerprints = shingle_sums(self.machine, tokens, size, None)
        signatures = self.finish(self.fold(fingerprints))
        return band_digests(self.machine, signatures, shape), self.machine.arrays.diff(fingerprints.offset)


class MinHash(Minima):
    """The minima of the family's functions over a set."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self.functions = Coefficients(*map(machine.arrays.asarray, coefficients(family)))

    def fold(self, fingerprints: Fingerprints) -> Array:
        lane = columns_per_lane(self.columns)
        rows = -(-self.columns // (LANES * lane))
        return self.by_spans("minhash", fingerprints, *self.functions, kernel=f"minhash_{lane}_columns", rows=rows)

    def digests(self, tokens: TokenSums, size: int, shape: BandShape) -> tuple[Array, Array]:
        """In one kernel if a signature fits its shared memory.

        A longer one needs so much more arithmetic for each fingerprint that the memory traffic of separate kernels
        hardly matters.
        """
        if self.columns > MAX_COLUMNS:
            return super().digests(tokens, size, shape)
        machine, xp, span = self.machine, self.machine.arrays, self.machine.geometry.span
        counts = tokens.counts(xp)
        shingles = xp.where(counts > 0, xp.maximum(counts - size, 0) + 1, 0)
        documents, total = len(counts), len(tokens.sums)
        spans = -(-total // span)
        digests = xp.full((documents, shape.bands), np.uint64(NO_DIGEST), np.uint64)
        minima = xp.full((spans, self.columns), np.uint32(NO_VALUE), np.uint32)
        straddlers = xp.empty(spans, np.int64)
        form, kernel = (self.columns, shape.bands, shape.rows), f"sketch_{columns_per_lane(self.columns)}_columns"
        read = tokens.sums, total, tokens.starts, documents, tokens.skip, size, *self.functions, *form, span
        made = digests, minima, straddlers
        machine.run("sketch", total, *read, *made, kernel=kernel, per="span")
        joined = minima, straddlers, spans, *form, digests
        machine.run("sketch", spans, *joined, kernel="sketch_straddlers", per="warp")
        return digests, shingles


def columns_per_lane(columns: int) -> int:
    """How many minima a lane keeps, of the compiled variants: the number that leaves the fewest lanes idle.

    Of equal ones the largest: one read of a fingerprint then serves more minima.
    """
    return min((8, 4, 2), key=lambda lane: -(-columns // (LANES * lane)) * lane)


class FunctionMinima(Minima):
    """The minima, by the family's kernel."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self.dtype = np.dtype(family.value_type).type
        self._kernel = f"wrapped_{family.value_type}" if family.sketch == "wrapped" else family.sketch
        tables = function_tables(family)
        self._tables = [machine.arrays.asarray(table) if isinstance(table, np.ndarray) else table for table in tables]

    def fold(self, fingerprints: Fingerprints) -> Array:
        rows = -(-self.columns // LANES)
        return self.by_spans("functions", fingerprints, *self._tables, kernel=self._kernel, rows=rows)


class FastSimilarity(Minima):
    """For each bin the first round that reached it, and the least value there."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self._drawn = machine.arrays.asarray(word_array(family, 2 * THROWS + family.num_perm))

    def fold(self, fingerprints: Fingerprints) -> Array:
        minima = self.by_spans("fast_similarity", fingerprints, self._drawn, kernel="first_round")
        given = fingerprints.values, fingerprints.offset, len(minima), self._drawn, self.columns, minima
        self.machine.run("fast_similarity", len(minima), *given, kernel="later_rounds", per="block")
        return minima


class OnePermutation(Minima):
    """The least value in each of `num_perm` bins."""

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self._multiplier, self._addend, self._probe = words(family, 3)

    def fold(self, fingerprints: Fingerprints) -> Array:
        return self.by_spans("one_permutation", fingerprints, self._multiplier | 1, self._addend)

    def finish(self, state: Array) -> Array:
        signatures = self.machine.arrays.empty(state.shape, np.uint32)
        given = state, len(state), self.columns, self._probe, signatures
        self.machine.run("one_permutation", len(state), *given, kernel="one_permutation_fill", per="warp")
        return signatures


class SplitmixRounds(Minima):
    """For each bin the least value of the first round that reached it; then, for those none reached, the least hash."""

    dtype = np.uint64

    def __init__(self, machine: Machine, family: Family) -> None:
        super().__init__(machine, family)
        self._bins, self.columns = family.num_perm, 2 * family.num_perm
        self._words = [machine.arrays.asarray(words) for words in word_pairs(family)]

    def fold(self, fingerprints: Fingerprints) -> Array:
        state = self.empty(len(fingerprints))
        given = fingerprints.values, fingerprints.offset, *self._words, self._bins, state
        self.machine.run("splitmix_rounds", len(state), *given, per="block")
        return state

    def finish(self, state: Array) -> Array:
        return rounds_joined(state)


SKETCHES: dict[str, Callable[[Machine, Family], Minima]] = {  # by `Family.sketch`
    **dict.fromkeys(FUNCTIONS, FunctionMinima),
    "fast_similarity": FastSimilarity,
    "minhash": MinHash,
    "one_permutation": OnePermutation,
    "splitmix_rounds": SplitmixRounds,
}


def occurrences(machine: Machine, fingerprints: Fingerprints) -> WeightedFingerprints:
    """Extra memory: about 60 bytes per fingerprint."""
    xp, offset = machine.arrays, fingerprints.offset
    start, stop = machine.number(offset[0]), machine.number(offset[-1])
    values, row = fingerprints.values[start:stop], machine.row_of(offset, start, stop)
    order = xp.argsort(values, kind="stable")
    order = order[xp.argsort(row[order], kind="stable")]
    values, row = values[order], row[order]
    begin = xp.flatnonzero(first_of_runs(values) | first_of_runs(row))
    weight = xp.diff(xp.concatenate((begin, xp.full(1, len(values), begin.dtype)))).astype(np.float64)
    return WeightedFingerprints(values[begin], weight, xp.searchsorted(begin, offset - offset[0]).astype(np.int64))


def weighted_overlap(machine: Machine, pairs: Array, rows: WeightedFingerprints) -> tuple[Array, Array]:
    xp, count = machine.arrays, len(pairs)
    least, greatest = xp.empty(count, np.float64), xp.empty(count, np.float64)
    machine.run("weighted_overlap", count, pairs, count, rows.values, rows.weight, rows.offset, least, greatest)
    return least, greatest


def weighted_minhash(machine: Machine, rows: WeightedFingerprints, num_perm: int, seed: int) -> Array:
    """Extra memory: 8 bytes per value of a signature."""
    xp, wanted = machine.arrays, math.ceil(num_perm * (math.log(num_perm) + 3))
    least = xp.full((len(rows), num_perm), np.uint64(NO_DIGEST), np.uint64)
    drawn = *Streams.of("weighted_minhash", seed), xp.asarray(logarithms())
    given = rows.values, xp.ascontiguousarray(rows.weight).view(np.uint64), rows.offset, *drawn, wanted, num_perm, least
    machine.run("weighted_minhash", len(rows), *given, per="block")
    return (least & np.uint64(NO_VALUE)).astype(np.uint32)


def kleinberg_tardos(machine: Machine, rows: Array, num_perm: int, seed: int) -> Array:
    xp, (count, columns) = machine.arrays, rows.shape
    signatures = xp.full((count, num_perm), np.uint32(NO_VALUE), np.uint32)
    if columns == 0:
        return signatures
    bits = xp.ascontiguousarray(rows).view(np.uint64)  # ascend as the numbers do
    total, drawn = count * num_perm, (*Streams.of("kleinberg_tardos", seed), xp.asarray(logarithms()))
    machine.run("kleinberg_tardos", total, bits, bits.max(axis=1), columns, *drawn, num_perm, total, signatures)
    return signatures
