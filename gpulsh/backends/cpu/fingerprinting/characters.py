"""Characters: ASCII up to 64 at a time, other code points one by one with their entries of the Unicode table.

The file begins with the keys of places in a token, in the form that kernels take. Vector code for ASCII finds letters
and digits, folds them, and sums their terms of the token hash. The last function makes each character a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import NDArray

from gpulsh.arrays import Words
from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import inlined, subroutine
from gpulsh.backends.cpu.vectors import (
    I1,
    I8,
    I16,
    I32,
    I64,
    LANES,
    WORDS,
    Products,
    broadcast,
    get_byte,
    get_word,
    llvm,
    load,
    lowest_bit,
    mix64,
    mix64_lanes,
    put_word,
    splat,
    store,
    sum_lanes,
)
from gpulsh.backends.hashing import public_words
from gpulsh.backends.unicode_table import SEPARATOR, STAGE1_SIZE, unicode_table
from gpulsh.params import Reading
from gpulsh.secret import DIGITS, PLACES, TOKEN_FAR, EvidenceKeys

BLOCK = 64  # bytes per mask
WIDE = 32  # bytes of a longer word that are summed at once
EXCLAMATION_MARK = np.int64(ord("!"))  # a token if symbols are
FEW = 16  # bytes read code point by code point before a block is tried again
FAR_BITS = DIGITS.bit_length() - 1  # of a digit of a far place
TOKENS_FAR = np.int64(TOKEN_FAR)  # a literal has its own type, for which functions would be compiled again
_INVALID = 0xFFFD  # for a byte in no well-formed sequence; a separator, too

_U = np.uint64
_ZERO, _ONE, _LENGTH, _SPACE, _ASCII = _U(0), _U(1), _U(protocol.LENGTH), _U(0x20), _U(0x80)
_GOLDEN, _STREAM_TOKEN = _U(protocol.GOLDEN), _U(protocol.STREAM_TOKEN)

_bytes64 = ir.VectorType(I8, BLOCK)


@inlined
def packing(value):
    """The distance from a place's key to the factor of a folded code point in its packed token."""
    return 8 * PLACES * np.int64(value >= _ASCII) - 16 * PLACES


@subroutine
def far_factor(number, keys, far):
    """The factor of the near secret keys, from the tables at `far`; 1 for the number 0."""
    low, middle, high = number & DIGITS - 1, number >> FAR_BITS & DIGITS - 1, number >> 2 * FAR_BITS
    tables = keys + 8 * far
    return (
        get_word(tables + 8 * low)
        * get_word(tables + 8 * (DIGITS + middle))
        * get_word(tables + 8 * (2 * DIGITS + high))
    )


@subroutine
def far_key(place, keys, secret):
    """The key of a place beyond the table."""
    if secret:
        return get_word(keys + 8 * (place % PLACES)) * far_factor(place // PLACES, keys, TOKENS_FAR)
    return mix64(_STREAM_TOKEN + _U(place + 1) * _GOLDEN) | _ONE


class KernelTable(NamedTuple):
    """Both stages of the Unicode table, one after the other; the caller of a kernel holds `stages`."""

    stages: NDArray[np.uint8]
    address: int


@cache
def kernel_table(reading: Reading) -> KernelTable:
    """The shipped table."""
    stages = np.concatenate([stage.view(np.uint8) for stage in unicode_table(reading)])
    return KernelTable(stages, stages.ctypes.data)


class KernelKeys(NamedTuple):
    """Keys for kernels; the caller of a kernel holds `words`.

    Before `address` are 2 * PLACES factors of a folded code point in its packed token, by its place: for ASCII, then
    for other code points.
    """

    words: Words
    address: int
    secret: bool


@lru_cache(maxsize=8)
def kernel_keys(keys: EvidenceKeys | None) -> KernelKeys:
    """The keys of evidence, or the public keys, which are fewer."""
    words = public_words() if keys is None else keys.words
    packing = np.concatenate([words[:PLACES], words[:PLACES]])
    packing[:8] = _ONE << np.arange(0, 64, 8, dtype=np.uint64)  # the first 8 bytes of a word are side by side
    words = np.concatenate([packing, words])
    return KernelKeys(words, words.ctypes.data + packing.nbytes, keys is not None)


def _bytes_in_range(builder: ir.IRBuilder, text: ir.Value, first: str, last: str) -> ir.Value:
    """Which of 64 bytes are from `first` to `last`."""
    behind = builder.sub(text, splat(ord(first), _bytes64))
    return builder.icmp_unsigned("<", behind, splat(ord(last) - ord(first) + 1, _bytes64))


@llvm(types.uint64(types.int64))
def word_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is an ASCII letter or digit."""
    text = load(builder, address, _bytes64)
    letter = _bytes_in_range(builder, builder.or_(text, splat(0x20, _bytes64)), "a", "z")
    return builder.bitcast(builder.or_(letter, _bytes_in_range(builder, text, "0", "9")), I64)


@llvm(types.uint64(types.int64))
def visible_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is an ASCII letter, digit, punctuation mark or symbol."""
    return builder.bitcast(_bytes_in_range(builder, load(builder, address, _bytes64), "!", "~"), I64)


@llvm(types.uint64(types.int64))
def lower_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 has the bit that folding gives to letters."""
    text = builder.shl(load(builder, address, _bytes64), splat(2, _bytes64))
    return builder.bitcast(builder.icmp_signed("<", text, splat(0, _bytes64)), I64)


@llvm(types.uint64(types.int64))
def high_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is not ASCII."""
    text = load(builder, address, _bytes64)
    return builder.bitcast(builder.icmp_signed("<", text, splat(0, _bytes64)), I64)


@llvm(types.void(types.int64, types.uint64, types.int64))
def fold_block(builder: ir.IRBuilder, address: ir.Value, tokens: ir.Value, out: ir.Value) -> None:
    """Store 64 ASCII characters, folded, and a space for each that is not among `tokens`."""
    text = load(builder, address, _bytes64)
    folded = builder.select(_bytes_in_range(builder, text, "A", "Z"), builder.or_(text, splat(0x20, _bytes64)), text)
    chosen = builder.bitcast(tokens, ir.VectorType(I1, BLOCK))
    store(builder, builder.select(chosen, folded, splat(ord(" "), _bytes64)), out)


@llvm(types.void(types.int64, types.uint64, types.int64, types.int64))
def sum_characters(builder: ir.IRBuilder, address: ir.Value, key: ir.Value, sums: ir.Value, packed: ir.Value) -> None:
    """Sums and packed tokens of 8 ASCII characters, each a token."""
    values = builder.zext(load(builder, address, ir.VectorType(I8, 8)), WORDS)
    store(builder, builder.add(builder.mul(values, broadcast(builder, key)), splat(protocol.LENGTH)), sums)
    store(builder, values, packed)


@llvm(types.int64())
def two_blocks(builder: ir.IRBuilder) -> ir.Value:
    """Where a function has room for 128 bytes."""
    return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(I8, 2 * BLOCK)), I64)


def _folded_ascii(builder: ir.IRBuilder, address: ir.Value, length: ir.Value) -> ir.Value:
    """The first `length` of 8 ASCII letters and digits, folded, the first lowest, then zeros; 1 <= length <= 8."""
    text = load(builder, address, I64)
    lower = builder.or_(text, ir.Constant(I64, 0x2020202020202020))  # letters fold, digits have the bit
    unused = builder.sub(ir.Constant(I64, 64), builder.shl(length, ir.Constant(I64, 3)))
    return builder.and_(lower, builder.lshr(ir.Constant(I64, 0xFFFFFFFFFFFFFFFF), unused))


packed_ascii = llvm(types.uint64(types.int64, types.int64))(_folded_ascii)


@llvm(types.uint64(types.int64, types.int64, types.int64))
def ascii_terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, keys: ir.Value) -> ir.Value:
    """Sum of keys[i] * folded byte i over the first `length` of 8 ASCII letters and digits; 1 <= length <= 8."""
    lower = _folded_ascii(builder, address, length)
    places = builder.zext(builder.bitcast(lower, ir.VectorType(I8, 8)), WORDS)
    return sum_lanes(builder, [builder.mul(places, load(builder, keys))])


def _folded_vector(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, size: int) -> Iterator[ir.Value]:
    """The first `length` of `size` ASCII letters and digits, folded, in 64 bits each, 8 a vector, then zeros."""
    kind = ir.VectorType(I8, size)
    lower = builder.or_(load(builder, address, kind), splat(0x20, kind))
    counts = broadcast(builder, builder.trunc(length, I8), kind)
    used = builder.icmp_unsigned("<", ir.Constant(kind, list(range(size))), counts)
    lower = builder.select(used, lower, splat(0, kind))
    for first in range(0, size, 8):
        places = ir.Constant(ir.VectorType(I32, 8), list(range(first, first + 8)))
        yield builder.zext(builder.shuffle_vector(lower, lower, places), ir.VectorType(I64, 8))


def _terms_of(size: int) -> Callable[..., object]:
    """Sum of keys[i] * folded byte i over the first `length` of `size` ASCII letters and digits."""

    @llvm(types.uint64(types.int64, types.int64, types.int64))
    def terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, keys: ir.Value) -> ir.Value:
        products = []
        for number, places in enumerate(_folded_vector(builder, address, length, size)):
            key = builder.add(keys, ir.Constant(I64, 64 * number))
            products.append(builder.mul(places, load(builder, key, ir.VectorType(I64, 8))))
        return sum_lanes(builder, products)

    return terms


wide_terms, block_terms = _terms_of(WIDE), _terms_of(BLOCK)


@llvm(types.uint64(types.int64, types.int64, types.int64))
def computed_terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, place: ir.Value) -> ir.Value:
    """Sum key * folded byte over `length` of 64 bytes, under public keys computed for the places from `place` on."""
    first = broadcast(builder, place)
    products = []
    for number, places in enumerate(_folded_vector(builder, address, length, BLOCK)):
        x = builder.add(first, ir.Constant(WORDS, [8 * number + lane + 1 for lane in range(8)]))
        x = builder.add(builder.mul(x, splat(protocol.GOLDEN)), splat(protocol.STREAM_TOKEN))
        products.append(builder.mul(places, builder.or_(mix64_lanes(builder, x), splat(1))))
    return sum_lanes(builder, products)


@llvm(types.void(types.int64, types.int64, types.int64, types.int64))
def sum_heads(builder: ir.IRBuilder, heads: ir.Value, lengths: ir.Value, keys: ir.Value, sums: ir.Value) -> None:
    """Of 8 words, one in each lane: the sum of keys[i] * byte i of the first 8 bytes, and the share of the length."""
    head = load(builder, heads)
    products = Products(builder, splat(0))
    products.add(load(builder, lengths), splat(protocol.LENGTH))
    for place in range(8):
        byte = builder.and_(builder.lshr(head, splat(8 * place)), splat(0xFF))
        key = load(builder, builder.add(keys, ir.Constant(I64, 8 * place)), I64)
        products.add(byte, broadcast(builder, key))
    store(builder, products.sum(), sums)


@llvm(types.int64(types.int64, types.int64))
def table_entry(builder: ir.IRBuilder, point: ir.Value, table: ir.Value) -> ir.Value:
    """The entry of a code point in the Unicode table, whose second stage follows the first."""

    def number(bits: int) -> ir.Constant:
        return ir.Constant(I64, bits)

    block = load(builder, builder.add(table, builder.shl(builder.lshr(point, number(7)), number(1))), I16)
    place = builder.or_(builder.shl(builder.zext(block, I64), number(7)), builder.and_(point, number(127)))
    stage2 = builder.add(table, number(2 * STAGE1_SIZE))
    return builder.sext(load(builder, builder.add(stage2, builder.shl(place, number(2))), I32), I64)


@subroutine
def decode(text, at, stop):
    """(code point, bytes) of the well-formed sequence at `at`, or (_INVALID, 1)."""
    lead = get_byte(text + at)
    if lead < 0x80:
        return lead, 1
    if lead < 0xE0:
        if lead >= 0xC2 and at + 1 < stop:
            second = get_byte(text + at + 1)
            if second & 0xC0 == 0x80:
                return (lead & 0x1F) << 6 | second & 0x3F, 2
        return _INVALID, 1
    if lead < 0xF0:
        if at + 2 < stop:
            second, third = get_byte(text + at + 1), get_byte(text + at + 2)
            point = (lead & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
            if second & 0xC0 == 0x80 and third & 0xC0 == 0x80 and point >= 0x800 and point >> 11 != 0x1B:
                return point, 3
        return _INVALID, 1
    if lead < 0xF5 and at + 3 < stop:
        second, third, fourth = get_byte(text + at + 1), get_byte(text + at + 2), get_byte(text + at + 3)
        point = (lead & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | fourth & 0x3F
        valid = second & 0xC0 == 0x80 and third & 0xC0 == 0x80 and fourth & 0xC0 == 0x80
        if valid and 0x10000 <= point <= 0x10FFFF:
            return point, 4
    return _INVALID, 1


@subroutine
def _ascii_characters(text, tokens, size, behind, key, sums, packed):
    """How many tokens the first `size` of 64 ASCII characters leave; `tokens` marks all of them except spaces."""
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
def character_sums(text, stop, room, table, keys, proof, sums, packed, begun, gap):
    """Sums of char tokens, and whether separators follow the last; `begun` and `gap`: whether tokens, separators
    precede.

    The first separator of a gap leaves the space, which is taken back if no token follows. A branch on whether a
    character separates would be mispredicted at both ends of each word. `room` bytes may be read.
    """
    key, ascii, other = get_word(keys), get_word(proof + packing(_ZERO)), get_word(proof + packing(_ASCII))
    at, count, behind = np.int64(0), np.int64(begun and gap), _U(begun and not gap)
    symbols = table_entry(EXCLAMATION_MARK, table) & 3 != SEPARATOR
    put_word(sums, key * _SPACE + _LENGTH)
    put_word(packed, ascii * _SPACE)
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
            point, size = get_byte(text + at), 1
            if point >= 0x80:
                point, size = decode(text, at, stop)
            entry = table_entry(point, table)
            token = _U(entry & 3 != SEPARATOR)
            value = _U(point + (entry >> 2)) if token != _ZERO else _SPACE
            put_word(sums + 8 * count, key * value + _LENGTH)
            put_word(packed + 8 * count, (ascii if value < _ASCII else other) * value)
            count += np.int64(token | behind)
            behind = token
            at += size
    return count - np.int64(count > 0 and behind == _ZERO), behind == _ZERO
