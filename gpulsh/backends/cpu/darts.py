"""Darts as kernels draw them: surprises from the table, ranks of all levels in one order."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import subroutine
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.mixing import mixed
from gpulsh.backends.darts import MANTISSA_BITS, RANK_BIAS, RANK_BITS, SEGMENT_BITS

_U = np.uint64
_S32 = _U(32)
_ONE = _U(1)
_MOST = _U(protocol.NO_VALUE - 1)
_RANK, _WITHIN = _U(RANK_BITS), _U(SEGMENT_BITS)
_SEGMENT, _MANTISSA = _U(64 - SEGMENT_BITS), _U(64 - MANTISSA_BITS)
_EXPONENT = _U(MANTISSA_BITS)
_SMALL = _U(64 - RANK_BITS)
_LONGEST = 63  # bits of a limit

NOTHING = _U(0xFFFFFFFFFFFFFFFF)  # after every dart


@lowered(types.uint64(types.uint64))
def leading_zeros(builder: ir.IRBuilder, word: ir.Value) -> ir.Value:
    """Of a word that is not 0."""
    wide, bit = ir.IntType(64), ir.IntType(1)
    count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(wide, [wide, bit]), "llvm.ctlz.i64")
    return builder.call(count, [word, ir.Constant(bit, 1)])


@subroutine
def surprise(table, word):
    before = leading_zeros(word | _ONE)
    behind = (word | _ONE) << before << _ONE
    segment = np.int64(behind >> _SEGMENT)
    low = table[segment]
    return (before + _ONE << _RANK) - (low + ((table[segment + 1] - low) * (behind << _WITHIN >> _S32) >> _S32))


@subroutine
def rank_limit(reach, level):
    """What ranks of a level stay below for those of all levels to stay below 2^reach; 0 where none does."""
    room = reach + level + RANK_BITS
    return _ONE << _U(min(room, _LONGEST)) if room > 0 else _U(0)


@subroutine
def is_beyond(word, limit):
    """Whether the first rank is surely not below `limit`, without the table: -log2(x) is more than 1 - x."""
    return limit <= _ONE << _RANK and ~word >> _SMALL > limit


@subroutine
def order(rank, level, place, value_word):
    """The rank, whatever its level, above the dart's value."""
    before = leading_zeros(rank)
    exponent = _U(np.int64(64 + RANK_BIAS) - np.int64(before) - level)
    mantissa = rank << before << _ONE >> _MANTISSA
    return (exponent << _EXPONENT | mantissa) << _S32 | min(mixed(place ^ value_word) >> _S32, _MOST)
