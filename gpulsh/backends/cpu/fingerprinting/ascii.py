"""ASCII, up to 64 characters at a time: where letters and digits are, folded, and what they add to a token's sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llvmlite import ir
from numba import types
from numba.core import cgutils

from gpulsh.backends import protocol
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.vectors import I1, I8, I32, I64, WORDS, all_of, everywhere, load, mixed, store, summed

BLOCK = 64  # bytes a mask
WIDE = 32  # bytes of a longer word that are summed at once

_bytes64 = ir.VectorType(I8, BLOCK)


def _among(builder: ir.IRBuilder, text: ir.Value, first: str, last: str) -> ir.Value:
    """Which of 64 bytes are from `first` to `last`."""
    behind = builder.sub(text, all_of(ord(first), _bytes64))
    return builder.icmp_unsigned("<", behind, all_of(ord(last) - ord(first) + 1, _bytes64))


@lowered(types.uint64(types.int64))
def word_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is an ASCII letter or digit."""
    text = load(builder, address, _bytes64)
    letter = _among(builder, builder.or_(text, all_of(0x20, _bytes64)), "a", "z")
    return builder.bitcast(builder.or_(letter, _among(builder, text, "0", "9")), I64)


@lowered(types.uint64(types.int64))
def visible_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is an ASCII letter, digit, punctuation mark or symbol."""
    return builder.bitcast(_among(builder, load(builder, address, _bytes64), "!", "~"), I64)


@lowered(types.uint64(types.int64))
def lower_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 has the bit that folding gives to letters."""
    text = builder.shl(load(builder, address, _bytes64), all_of(2, _bytes64))
    return builder.bitcast(builder.icmp_signed("<", text, all_of(0, _bytes64)), I64)


@lowered(types.uint64(types.int64))
def high_mask(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Bit i: byte i of 64 is not ASCII."""
    text = load(builder, address, _bytes64)
    return builder.bitcast(builder.icmp_signed("<", text, all_of(0, _bytes64)), I64)


@lowered(types.void(types.int64, types.uint64, types.int64))
def fold_block(builder: ir.IRBuilder, address: ir.Value, tokens: ir.Value, out: ir.Value) -> None:
    """Store 64 ASCII characters, folded, and a space for each that is not among `tokens`."""
    text = load(builder, address, _bytes64)
    folded = builder.select(_among(builder, text, "A", "Z"), builder.or_(text, all_of(0x20, _bytes64)), text)
    chosen = builder.bitcast(tokens, ir.VectorType(I1, BLOCK))
    store(builder, builder.select(chosen, folded, all_of(ord(" "), _bytes64)), out)


@lowered(types.void(types.int64, types.uint64, types.int64, types.int64))
def sum_characters(builder: ir.IRBuilder, address: ir.Value, key: ir.Value, sums: ir.Value, packed: ir.Value) -> None:
    """Sums and packed tokens of 8 ASCII characters, each a token."""
    values = builder.zext(load(builder, address, ir.VectorType(I8, 8)), WORDS)
    store(builder, builder.add(builder.mul(values, everywhere(builder, key)), all_of(protocol.LENGTH)), sums)
    store(builder, values, packed)


@lowered(types.int64())
def two_blocks(builder: ir.IRBuilder) -> ir.Value:
    """Where a function has room for 128 bytes."""
    return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(I8, 2 * BLOCK)), I64)


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
