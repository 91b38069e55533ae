"""UTF-8 to code points and what the Unicode table holds of them; characters as tokens."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from gpulsh.backends import protocol
from gpulsh.backends.cpu.fingerprinting.ascii import (
    BLOCK,
    fold_block,
    high_mask,
    sum_characters,
    two_blocks,
    visible_mask,
    word_mask,
)
from gpulsh.backends.cpu.fingerprinting.keys import packing
from gpulsh.backends.cpu.kernel import subroutine
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.vectors import I16, I32, I64, LANES, byte, get, load, lowest_bit, put
from gpulsh.backends.unicode_table import SEPARATOR

_U = np.uint64
_ZERO, _ONE, _LENGTH, _SPACE, _ASCII = _U(0), _U(1), _U(protocol.LENGTH), _U(0x20), _U(0x80)
EXCLAMATION_MARK = np.int64(ord("!"))  # a token where symbols are
FEW = 16  # bytes that are read code point by code point before more are tried together
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
def _ascii_characters(text, tokens, size, behind, key, sums, packed):
    """How many tokens the first `size` of 64 ASCII characters leave, of which `tokens` marks those but for spaces."""
    kept = (tokens | (tokens << _ONE | behind)) & ~_ZERO >> _U(BLOCK - size)
    dense, count = two_blocks(), np.int64(0)
    while kept != _ZERO:  # up to the next that is left out; few are
        start = lowest_bit(kept)
        fold_block(text + start, tokens >> _U(start), dense + count)
        count += lowest_bit(~(kept >> _U(start)))
        kept &= kept + (_ONE << _U(start))
    for i in range(0, count, LANES):
        sum_characters(dense + i, key, sums + 8 * i, packed + 8 * i)
    return count


@subroutine
def character_sums(text, stop, room, stage1, stage2, keys, proof, sums, packed, begun, gap):
    """Sums of char tokens, and whether separators stand behind the last; `begun` and `gap`: tokens and those before.

    The first separator of a gap leaves the space, which is taken back where no token follows: a branch on whether a
    character separates would be guessed wrong at both ends of each word. `room` bytes may be read.
    """
    key, ascii, other = get(keys), get(proof + packing(_ZERO)), get(proof + packing(_ASCII))
    at, count, behind = np.int64(0), np.int64(begun and gap), _U(begun and not gap)
    symbols = table_entry(EXCLAMATION_MARK, stage1, stage2) & 3 != SEPARATOR
    put(sums, key * _SPACE + _LENGTH)
    put(packed, ascii * _SPACE)
    while at < stop:
        until = min(at + FEW, stop)
        size = min(lowest_bit(high_mask(text + at)), stop - at) if at + 2 * BLOCK <= room else 0
        if size > FEW:
            tokens = visible_mask(text + at) if symbols else word_mask(text + at)
            out = 8 * count
            count += _ascii_characters(text + at, tokens, size, behind, key, sums + out, packed + out)
            behind = tokens >> _U(size - 1) & _ONE
            at += size
        while at < until:
            point, size = byte(text + at), 1
            if point >= 0x80:
                point, size = decode(text, at, stop)
            entry = table_entry(point, stage1, stage2)
            token = _U(entry & 3 != SEPARATOR)
            value = _U(point + (entry >> 2)) if token != _ZERO else _SPACE
            put(sums + 8 * count, key * value + _LENGTH)
            put(packed + 8 * count, (ascii if value < _ASCII else other) * value)
            count += np.int64(token | behind)
            behind = token
            at += size
    return count - np.int64(count > 0 and behind == _ZERO), behind == _ZERO
