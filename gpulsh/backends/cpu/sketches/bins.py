"""The common part of sketches that throw fingerprints into bins: a bin's least value, and the empty bins.

Empty bins are the bits of a word: a branch on every bin would be mispredicted as often as bins are empty.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import inlined
from gpulsh.backends.cpu.vectors import I32, I64, all_of, load, lowered, lowest_bit, ones

WORD = 64  # bins
AHEAD = 8  # places written at once, so that the number of empty bins of a word is no mispredicted branch

_U = np.uint64
_NO_VALUE = np.uint32(protocol.NO_VALUE)
_S32 = _U(32)
_bins = ir.VectorType(I32, WORD)


@inlined
def keep_least(thrown, count, least):
    """Lower `least` by the first `count` of `thrown`, uint64: a bin in the upper half, a value in the lower."""
    for i in range(count):
        place = thrown[i] >> _S32
        least[place] = min(least[place], np.uint32(thrown[i]))


@lowered(types.uint64(types.int64))
def _empty(builder: ir.IRBuilder, least_at: ir.Value) -> ir.Value:
    """Bit i is set if bin i of WORD is empty."""
    equal = builder.icmp_unsigned("==", load(builder, least_at, _bins), all_of(protocol.NO_VALUE, _bins))
    return builder.bitcast(equal, I64)


@inlined
def any_empty(least):
    """Whether a bin has no value."""
    least_at, whole = least.ctypes.data, least.size - least.size % WORD
    for first in range(0, whole, WORD):
        if _empty(least_at + 4 * first) != _U(0):
            return True
    empty = 0
    for place in range(whole, least.size):
        empty += least[place] == _NO_VALUE
    return empty > 0


@inlined
def empty_bins(least, places):
    """How many bins have no value; `places`, AHEAD more than there are bins, begins with their numbers, ascending."""
    least_at, taken, whole = least.ctypes.data, 0, least.size - least.size % WORD
    for first in range(0, whole, WORD):
        empty = _empty(least_at + 4 * first)
        end = taken + ones(empty)
        while taken < end:
            for i in range(AHEAD):
                places[taken + i] = first + lowest_bit(empty)
                empty &= empty - _U(1)
            taken += AHEAD
        taken = end
    for place in range(whole, least.size):
        places[taken] = place
        taken += least[place] == _NO_VALUE
    return taken
