"""ASCII letters and digits, up to 64 at a time: where they are, folded, and what they add to a token's sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llvmlite import ir
from numba import types

from gpulsh.backends import protocol
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.vectors import I1, I8, I32, I64, WORDS, all_of, everywhere, load, mixed, store, summed

BLOCK = 64  # bytes a mask
WIDE = 32  # bytes of a longer word that are summed at once

_bytes64 = ir.VectorType(I8, BLOCK)


@lowered(types.uint64(types.int64))
def word_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is an ASCII letter or digit."""

    def bytes_of(byte: int) -> ir.Constant:
        return all_of(byte, _bytes64)

    text = load(builder, address, _bytes64)
    letter = builder.sub(builder.or_(text, bytes_of(0x20)), bytes_of(ord("a")))
    digit = builder.sub(text, bytes_of(ord("0")))
    word = builder.or_(
        builder.icmp_unsigned("<", letter, bytes_of(26)), builder.icmp_unsigned("<", digit, bytes_of(10))
    )
    return builder.bitcast(word, I64)


@lowered(types.uint64(types.int64))
def high_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is not ASCII."""
    text = load(builder, address, _bytes64)
    return builder.bitcast(builder.icmp_signed("<", text, all_of(0, _bytes64)), I64)


@lowered(types.int64(types.uint64))
def lowest_bit(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """The place of the lowest set bit of a mask, 64 where there is none."""
    return builder.cttz(mask, ir.Constant(I1, 0))


@lowered(types.int64(types.uint64))
def ones_above(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """How many bits of a mask are set above its highest that is not."""
    return builder.ctlz(builder.not_(mask), ir.Constant(I1, 0))


def _folded_ascii(builder: ir.IRBuilder, address: ir.Value, length: ir.Value) -> ir.Value:
    text = load(builder, address, I64)
    lower = builder.or_(text, ir.Constant(I64, 0x2020202020202020))  # letters fold, digits have the bit
    unused = builder.sub(ir.Constant(I64, 64), builder.shl(length, ir.Constant(I64, 3)))
    return builder.and_(lower, builder.lshr(ir.Constant(I64, 0xFFFFFFFFFFFFFFFF), unused))


@lowered(types.uint64(types.int64, types.int64))
def packed_ascii(builder: ir.IRBuilder, address: ir.Value, length: ir.Value) -> ir.Value:
    """The first `length` of 8 ASCII letters and digits, folded, the first lowest, zeros behind; 1 <= length <= 8."""
    return _folded_ascii(builder, address, length)


@lowered(types.uint64(types.int64, types.int64, types.int64))
def ascii_terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, keys: ir.Value) -> ir.Value:
    """Sum of keys[i] * folded byte i over the first `length` of 8 ASCII letters and digits; 1 <= length <= 8."""
    lower = _folded_ascii(builder, address, length)
    places = builder.zext(builder.bitcast(lower, ir.VectorType(I8, 8)), WORDS)
    return summed(builder, [builder.mul(places, load(builder, keys))])


def _folded_vector(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, size: int) -> Iterator[ir.Value]:
    """The first `length` of `size` ASCII letters and digits, folded, in 64 bits each, 8 a vector, zeros behind."""
    kind = ir.VectorType(I8, size)
    lower = builder.or_(load(builder, address, kind), all_of(0x20, kind))
    counts = everywhere(builder, builder.trunc(length, I8), kind)
    used = builder.icmp_unsigned("<", ir.Constant(kind, list(range(size))), counts)
    lower = builder.select(used, lower, all_of(0, kind))
    for first in range(0, size, 8):
        places = ir.Constant(ir.VectorType(I32, 8), list(range(first, first + 8)))
        yield builder.zext(builder.shuffle_vector(lower, lower, places), ir.VectorType(I64, 8))


def _terms_of(size: int) -> Callable[..., object]:
    """Sum of keys[i] * folded byte i over the first `length` of `size` ASCII letters and digits."""

    @lowered(types.uint64(types.int64, types.int64, types.int64))
    def terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, keys: ir.Value) -> ir.Value:
        products = []
        for number, places in enumerate(_folded_vector(builder, address, length, size)):
            key = builder.add(keys, ir.Constant(I64, 64 * number))
            products.append(builder.mul(places, load(builder, key, ir.VectorType(I64, 8))))
        return summed(builder, products)

    return terms


wide_terms, block_terms = _terms_of(WIDE), _terms_of(BLOCK)


@lowered(types.uint64(types.int64, types.int64, types.int64))
def computed_terms(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, place: ir.Value) -> ir.Value:
    """Sum key * folded byte over `length` of 64 bytes, under public keys computed for the places from `place` on."""
    first = everywhere(builder, place)
    products = []
    for number, places in enumerate(_folded_vector(builder, address, length, BLOCK)):
        x = builder.add(first, ir.Constant(WORDS, [8 * number + lane + 1 for lane in range(8)]))
        x = builder.add(builder.mul(x, all_of(protocol.GOLDEN)), all_of(protocol.STREAM_TOKEN))
        products.append(builder.mul(places, builder.or_(mixed(builder, x), all_of(1))))
    return summed(builder, products)


@lowered(types.void(types.int64, types.int64, types.int64, types.int64))
def sum_heads(builder: ir.IRBuilder, heads: ir.Value, lengths: ir.Value, keys: ir.Value, sums: ir.Value) -> None:
    """Of 8 words, one in each lane: the sum of keys[i] * byte i of the first 8 bytes, and what the length adds."""
    head = load(builder, heads, WORDS)
    totals = [builder.mul(load(builder, lengths, WORDS), all_of(protocol.LENGTH)), all_of(0)]
    for place in range(8):
        byte = builder.and_(builder.lshr(head, all_of(8 * place)), all_of(0xFF))
        key = load(builder, builder.add(keys, ir.Constant(I64, 8 * place)), I64)
        totals[place % 2] = builder.add(totals[place % 2], builder.mul(byte, everywhere(builder, key)))
    store(builder, builder.add(*totals), sums)
