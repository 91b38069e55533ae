"""MinHash: hash functions in the lanes of vectors, their running minima in registers, a shingle broadcast to all.

The inner loop is a multiply, an add and a minimum per vector. With functions in the lanes, no minimum is taken across
lanes and no row needs padding, so short documents run at the rate of long ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends.cpu.kernel import inlined, kernel
from gpulsh.backends.cpu.sketches import Minima
from gpulsh.backends.cpu.vectors import I32, I64, REGISTER, broadcast, llvm, load
from gpulsh.params import Family
from gpulsh.permutations import coefficients

TILE = 2048  # shingles, 8 KB, stay in the first-level cache over all functions
LANES = REGISTER // 32
VECTORS = 4  # at once: their minima, multipliers and addends fill 12 registers, and machines have 16 or 32

_U32 = np.uint32
_NO_VALUE = np.uint32(0xFFFFFFFF)
_UPPER = np.uint64(32)

_lanes = ir.VectorType(I32, LANES)


def _fold(vectors: int) -> Callable[..., object]:
    """An intrinsic that lowers `vectors` * LANES minima by the `count` shingles of a tile; the rest are addresses."""

    @llvm(types.void(types.int64, types.int64, types.int64, types.int64, types.int64))
    def fold(
        builder: ir.IRBuilder, tile: ir.Value, count: ir.Value, multiplier: ir.Value, addend: ir.Value, minima: ir.Value
    ) -> None:
        def vector(table: ir.Value, v: int) -> ir.Value:
            return load(builder, builder.add(table, ir.Constant(I64, 4 * LANES * v)), _lanes)

        drawn = [(vector(multiplier, v), vector(addend, v)) for v in range(vectors)]
        shingles, start = builder.inttoptr(tile, I32.as_pointer()), builder.inttoptr(minima, _lanes.as_pointer())
        places = [builder.gep(start, [ir.Constant(I64, v)]) for v in range(vectors)]
        before = [builder.load(place, align=4) for place in places]
        entry = builder.block
        loop, done = builder.append_basic_block("shingle"), builder.append_basic_block("done")
        builder.branch(loop)

        builder.position_at_end(loop)
        i = builder.phi(I64)
        i.add_incoming(ir.Constant(I64, 0), entry)
        running = [builder.phi(_lanes) for _ in drawn]
        shingle = broadcast(builder, builder.load(builder.gep(shingles, [i])), _lanes)
        for v, (a, b) in enumerate(drawn):
            value = builder.add(builder.mul(shingle, a), b)
            lower = builder.select(builder.icmp_unsigned("<", value, running[v]), value, running[v])
            running[v].add_incoming(before[v], entry)
            running[v].add_incoming(lower, loop)
            before[v] = lower
        following = builder.add(i, ir.Constant(I64, 1))
        i.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, done)

        builder.position_at_end(done)
        for least, place in zip(before, places, strict=True):
            builder.store(least, place, align=4)

    return fold


_fold_many, _fold_one = _fold(VECTORS), _fold(1)


@inlined
def fold_lanes(tile_at, count, vectors, multiplier_at, addend_at, minima_at):
    """Lower `vectors` * LANES minima by the `count` shingles of a tile; names in `_at` are addresses of arrays."""
    v = 0
    while v < vectors:
        skip = 4 * LANES * v
        if v + VECTORS <= vectors:
            _fold_many(tile_at, count, multiplier_at + skip, addend_at + skip, minima_at + skip)
            v += VECTORS
        else:
            _fold_one(tile_at, count, multiplier_at + skip, addend_at + skip, minima_at + skip)
            v += 1


@kernel
def _minhash(values, offset, tile, minima, tile_at, multiplier_at, addend_at, minima_at, signatures):
    """`tile` [TILE] and `minima`, as long as the multipliers, are room."""
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        for i in range(minima.size):
            minima[i] = _NO_VALUE
        for first in range(begin, end, TILE):
            source = values[first : min(first + TILE, end)]
            for i in range(source.size):
                tile[i] = _U32(source[i] >> _UPPER)
            fold_lanes(tile_at, source.size, minima.size // LANES, multiplier_at, addend_at, minima_at)
        for i in range(signatures.shape[1]):  # a slice would make Numba compile an error message for different lengths
            signatures[document, i] = minima[i]


class MinHash(Minima):
    """The minima of the family's functions over a set."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        spare = -family.num_perm % LANES  # whole vectors of functions
        drawn = coefficients(family)
        self._multiplier = np.pad(drawn.multiplier, (0, spare), constant_values=1)
        self._addend = np.pad(drawn.addend, (0, spare))
        self._lie_at = self._multiplier.ctypes.data, self._addend.ctypes.data

    def fold_into(self, fingerprints: Fingerprints, minima: Values) -> None:
        # The kernel compiles in less time where it makes no arrays of its own.
        tile, least = np.empty(TILE, np.uint32), np.empty(len(self._multiplier), np.uint32)
        places = tile.ctypes.data, *self._lie_at, least.ctypes.data
        _minhash(fingerprints.values, fingerprints.offset, tile, least, *places, minima)


SKETCHES: dict[str, Callable[[Family], Minima]] = {"minhash": MinHash}
