"""The kernels that fingerprint all documents of a chunk, or one document piece by piece."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from gpulsh.backends import protocol
from gpulsh.backends.cpu.fingerprinting.characters import character_sums, decode, far_factor, table_entry
from gpulsh.backends.cpu.fingerprinting.words import word_sums
from gpulsh.backends.cpu.kernel import kernel, subroutine
from gpulsh.backends.cpu.vectors import (
    I64,
    LANES,
    WORDS,
    Products,
    broadcast,
    get_byte,
    get_word,
    llvm,
    load,
    mix64_lanes,
    put_word,
    splat,
    store,
    sum_lanes,
)
from gpulsh.backends.unicode_table import WORD
from gpulsh.secret import DIGITS, EXACT, EXACT_FAR, EXACT_PLACES, EXACT_SPREAD, LEVELS, SHINGLE


@kernel
def fingerprint_documents(address, readable, offset, how, memory, ends, exact, words, characters, symbols):
    """All documents of a chunk: fingerprints end to end, their end positions, exact hashes.

    `how` is the size of shingles, the Unicode table, the keys of fingerprints and whether they are secret, and the keys
    of exact hashes and whether there are any. If the size is 0, hashes of tokens are in the place of fingerprints.
    `memory` has room for the sums of a document's tokens, its packed tokens, all fingerprints, and a run of words.
    Arrays in these are addresses. `words` or `characters` is None, whichever are not tokens: as with `symbols` of
    `word_sums`, their code is not compiled.
    """
    size, table, keys, secret, proof, proves = how
    tokens, packed, values, run = memory
    written, count = 0, 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop, out = address + begin, end - begin, values + 8 * written
        sums = tokens if size > 0 else out
        if words is not None:
            count = word_sums(
                text, stop, readable - begin, table, keys, secret, proof, proves, sums, packed, run, symbols
            )
        if characters is not None:
            count, _ = character_sums(text, stop, readable - begin, table, keys, proof, sums, packed, False, False)
        mix_tokens(sums, count)
        if proves:
            exact[document, 0], exact[document, 1] = exact_sums(packed, count, np.int64(0), proof)
        written += count if size == 0 else row_shingles(sums, count, size, keys, out)
        ends[document] = written


@kernel
def shingle_tokens(tokens, offset, size, keys, values, ends):
    """All rows of tokens: their fingerprints under `keys` end to end, and their end positions."""
    written = 0
    for row in range(offset.size - 1):
        count = offset[row + 1] - offset[row]
        written += row_shingles(tokens + 8 * offset[row], count, size, keys, values + 8 * written)
        ends[row] = written


_U = np.uint64
_ZERO, _LENGTH = _U(0), _U(protocol.LENGTH)
_EXACT_FAR, _OTHER_EXACT_FAR = map(np.int64, (EXACT_FAR, EXACT_FAR + LEVELS * DIGITS))


@llvm(types.void(types.int64))
def _mix_vector(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Mix 8 words in place."""
    store(builder, mix64_lanes(builder, load(builder, address)), address)


@llvm(types.uint64(types.int64, types.int64, types.int64, types.uint64))
def _exact_terms(
    builder: ir.IRBuilder, packed: ir.Value, count: ir.Value, keys: ir.Value, spread: ir.Value
) -> ir.Value:
    """Sum of keys[i] * the bytes, reversed, of spread * packed[i], for `count` packed tokens."""
    total = cgutils.alloca_once_value(builder, splat(0))
    spreads = broadcast(builder, spread)
    swap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(WORDS, [WORDS]), "llvm.bswap.v8i64")
    lanes = ir.Constant(WORDS, list(range(LANES)))
    with cgutils.for_range_slice(builder, ir.Constant(I64, 0), count, ir.Constant(I64, LANES)) as (i, _):
        skip = builder.shl(i, ir.Constant(I64, 3))
        spreaded = builder.mul(load(builder, builder.add(packed, skip)), spreads)
        term = builder.mul(builder.call(swap, [spreaded]), load(builder, builder.add(keys, skip)))
        used = builder.icmp_signed("<", lanes, broadcast(builder, builder.sub(count, i)))
        builder.store(builder.add(builder.load(total), builder.select(used, term, splat(0))), total)
    return sum_lanes(builder, [builder.load(total)])


@llvm(types.void(types.int64, types.int64, types.int64, types.int64))
def _shingle_vector(builder: ir.IRBuilder, tokens: ir.Value, size: ir.Value, keys: ir.Value, out: ir.Value) -> None:
    """8 shingles of `size` tokens, the first of them at `tokens`, the second a token farther on."""
    length = builder.mul(size, ir.Constant(I64, protocol.LENGTH))
    products = Products(builder, broadcast(builder, length))
    with cgutils.for_range(builder, size) as places:
        skip = builder.shl(places.index, ir.Constant(I64, 3))
        key = broadcast(builder, load(builder, builder.add(keys, skip), I64))
        products.add(load(builder, builder.add(tokens, skip)), key)
    store(builder, mix64_lanes(builder, products.sum()), out)


@subroutine
def exact_sums(packed, count, before, proof):
    """The two halves of an exact hash over `count` tokens that `before` others precede."""
    one, two = _ZERO, _ZERO
    spread, other_spread = get_word(proof + 8 * EXACT_SPREAD), get_word(proof + 8 * (EXACT_SPREAD + 1))
    done = 0
    while done < count:  # once, but for long documents
        number, begin = (before + done) // EXACT_PLACES, (before + done) % EXACT_PLACES
        here, size = packed + 8 * done, min(EXACT_PLACES - begin, count - done)
        keys = proof + 8 * (EXACT + begin)
        one += _exact_terms(here, size, keys, spread) * far_factor(number, proof, _EXACT_FAR)
        other_keys = keys + 8 * EXACT_PLACES
        two += _exact_terms(here, size, other_keys, other_spread) * far_factor(number, proof, _OTHER_EXACT_FAR)
        done += size
    return one, two


@subroutine
def mix_tokens(sums, count):
    """Make token hashes of sums, in place."""
    for i in range(0, count, LANES):
        _mix_vector(sums + 8 * i)


@subroutine
def row_shingles(tokens, count, size, keys, out):
    """The fingerprints of a document, none without tokens."""
    if count == 0:
        return 0
    used = min(size, count)
    shingles = count - used + 1
    for i in range(0, shingles, LANES):
        _shingle_vector(tokens + 8 * i, used, keys + 8 * SHINGLE, out + 8 * i)
    return shingles


@subroutine
def _cut(text, start, size, stop, words, table):
    """The end of a piece of `size` bytes: between characters, and for words between tokens.

    A token that is longer than a piece makes the piece as long. A cut of a shorter one is never before a continuation
    byte, so a piece may be longer by a tail of them, which makes no token more.
    """
    end = start + size
    while end < stop and get_byte(text + end) & 0xC0 == 0x80:
        end += 1
    if end >= stop or not words:
        return min(end, stop)
    for at in range(end, start, -1):
        if get_byte(text + at) & 0xC0 != 0x80 and not _in_word(text, at, stop, table):
            return at
    while end < stop and _in_word(text, end, stop, table):
        end += decode(text, end, stop)[1]
    return end


@subroutine
def _in_word(text, at, stop, table):
    """Whether a code point continues a word."""
    return table_entry(decode(text, at, stop)[0], table) & 3 == WORD


@kernel
def fingerprint_piece(text, room, stop, most, words, how, memory, state, sums, kept, symbols):
    """The shingles that end in the next piece, of `most` bytes, of a document of `stop` bytes; their number.

    `how` and `memory` are as for a chunk. These stay between pieces: `state` int64 [4], the place in the text, the
    tokens before it, whether separators are there and how many tokens are kept; `sums` uint64 [2], in the end the exact
    hash, if there is one; `kept` uint64 [size], the last size - 1 tokens.
    """
    size, table, keys, secret, proof, proves = how
    tokens, packed, out, run = memory
    at, before, gap, held = state[0], state[1], state[2] != 0, state[3]
    for i in range(held):
        put_word(tokens + 8 * i, kept[i])
    fresh = tokens + 8 * held
    end = _cut(text, at, most, stop, words, table)
    text, room, length = text + at, room - at, end - at
    if words:
        count = word_sums(text, length, room, table, keys, secret, proof, proves, fresh, packed, run, symbols)
    else:
        count, gap = character_sums(text, length, room, table, keys, proof, fresh, packed, before > 0, gap)
    mix_tokens(fresh, count)
    if proves:
        one, two = exact_sums(packed, count, before, proof)
        sums[0], sums[1] = sums[0] + one, sums[1] + two
    before += count
    count += held
    held = max(min(count, size - 1), 0)
    for i in range(held):
        kept[i] = get_word(tokens + 8 * (count - held + i))
    state[0], state[1], state[2], state[3] = end, before, gap, held
    if size == 0:
        for i in range(count):
            put_word(out + 8 * i, get_word(tokens + 8 * i))
        return count
    if count >= size or (end == stop and 0 < before < size):
        return row_shingles(tokens, count, size, keys, out)
    return 0
