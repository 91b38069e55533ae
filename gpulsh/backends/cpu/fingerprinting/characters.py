"""UTF-8 to code points and what the Unicode table holds of them; characters as tokens."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from gpulsh.backends import protocol
from gpulsh.backends.cpu.fingerprinting.keys import packing
from gpulsh.backends.cpu.kernel import subroutine
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.vectors import I16, I32, I64, byte, get, load, put
from gpulsh.backends.unicode_table import SEPARATOR

_U = np.uint64
_LENGTH, _SPACE = _U(protocol.LENGTH), _U(0x20)
_INVALID = 0xFFFD  # stands for a byte that is in no well-formed sequence, and separates as it does


@lowered(types.int64(types.int64, types.int64, types.int64))
def table_entry(builder: ir.IRBuilder, point: ir.Value, stage1: ir.Value, stage2: ir.Value) -> ir.Value:
    """What the Unicode table holds of a code point."""

    def number(bits: int) -> ir.Constant:
        return ir.Constant(I64, bits)

    block = load(builder, builder.add(stage1, builder.shl(builder.lshr(point, number(7)), number(1))), I16)
    place = builder.or_(builder.shl(builder.zext(block, I64), number(7)), builder.and_(point, number(127)))
    return builder.sext(load(builder, builder.add(stage2, builder.shl(place, number(2))), I32), I64)


@subroutine
def decode(text, at, stop):
    """(code point, bytes) of the well-formed sequence at `at`, or (_INVALID, 1)."""
    lead = byte(text + at)
    if lead < 0x80:
        return lead, 1
    if lead < 0xE0:
        if lead >= 0xC2 and at + 1 < stop:
            second = byte(text + at + 1)
            if second & 0xC0 == 0x80:
                return (lead & 0x1F) << 6 | second & 0x3F, 2
        return _INVALID, 1
    if lead < 0xF0:
        if at + 2 < stop:
            second, third = byte(text + at + 1), byte(text + at + 2)
            point = (lead & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
            if second & 0xC0 == 0x80 and third & 0xC0 == 0x80 and point >= 0x800 and point >> 11 != 0x1B:
                return point, 3
        return _INVALID, 1
    if lead < 0xF5 and at + 3 < stop:
        second, third, fourth = byte(text + at + 1), byte(text + at + 2), byte(text + at + 3)
        point = (lead & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | fourth & 0x3F
        valid = second & 0xC0 == 0x80 and third & 0xC0 == 0x80 and fourth & 0xC0 == 0x80
        if valid and 0x10000 <= point <= 0x10FFFF:
            return point, 4
    return _INVALID, 1


@subroutine
def character_sums(text, stop, stage1, stage2, keys, proof, sums, packed, begun, gap):
    """Sums of char tokens, and whether separators stand behind the last; `begun` and `gap`: tokens and those before."""
    at, count = np.int64(0), np.int64(0)
    while at < stop:
        point, size = decode(text, at, stop)
        at += size
        entry = table_entry(point, stage1, stage2)
        if entry & 3 == SEPARATOR:
            gap = True
            continue
        if gap and begun:
            put(sums + 8 * count, get(keys) * _SPACE + _LENGTH)
            put(packed + 8 * count, _SPACE)
            count += 1
        value = _U(point + (entry >> 2))
        put(sums + 8 * count, get(keys) * value + _LENGTH)
        put(packed + 8 * count, get(proof + packing(value)) * value)
        count += 1
        begun, gap = True, False
    return count, gap
