"""From the sums and packed tokens of a row to token hashes, shingles and the two halves of an exact hash."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from gpulsh.backends import protocol
from gpulsh.backends.cpu.fingerprinting.keys import far_factor
from gpulsh.backends.cpu.kernel import subroutine
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.vectors import I64, LANES, WORDS, all_of, everywhere, get, load, mixed, store, summed
from gpulsh.secret import DIGITS, EXACT, EXACT_FAR, EXACT_PLACES, EXACT_SPREAD, LEVELS, SHINGLE

_ZERO = np.uint64(0)
_EXACT_FAR, _OTHER_EXACT_FAR = map(np.int64, (EXACT_FAR, EXACT_FAR + LEVELS * DIGITS))


@lowered(types.void(types.int64))
def _mix_vector(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Mix 8 words where they lie."""
    store(builder, mixed(builder, load(builder, address)), address)


@lowered(types.uint64(types.int64, types.int64, types.int64, types.uint64))
def _exact_terms(
    builder: ir.IRBuilder, packed: ir.Value, count: ir.Value, keys: ir.Value, spread: ir.Value
) -> ir.Value:
    """Sum of keys[i] * the bytes, reversed, of spread * packed[i], for `count` packed tokens."""
    total = cgutils.alloca_once_value(builder, all_of(0))
    spreads = everywhere(builder, spread)
    swap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(WORDS, [WORDS]), "llvm.bswap.v8i64")
    lanes = ir.Constant(WORDS, list(range(LANES)))
    with cgutils.for_range_slice(builder, ir.Constant(I64, 0), count, ir.Constant(I64, LANES)) as (i, _):
        skip = builder.shl(i, ir.Constant(I64, 3))
        spreaded = builder.mul(load(builder, builder.add(packed, skip)), spreads)
        term = builder.mul(builder.call(swap, [spreaded]), load(builder, builder.add(keys, skip)))
        used = builder.icmp_signed("<", lanes, everywhere(builder, builder.sub(count, i)))
        builder.store(builder.add(builder.load(total), builder.select(used, term, all_of(0))), total)
    return summed(builder, [builder.load(total)])


@lowered(types.void(types.int64, types.int64, types.int64, types.int64))
def _shingle_vector(builder: ir.IRBuilder, tokens: ir.Value, size: ir.Value, keys: ir.Value, out: ir.Value) -> None:
    """8 shingles of `size` tokens, the first of them at `tokens`, the second a token farther on."""
    length = builder.mul(size, ir.Constant(I64, protocol.LENGTH))
    total = cgutils.alloca_once_value(builder, everywhere(builder, length))
    with cgutils.for_range(builder, size) as places:
        skip = builder.shl(places.index, ir.Constant(I64, 3))
        key = everywhere(builder, load(builder, builder.add(keys, skip), I64))
        term = builder.mul(key, load(builder, builder.add(tokens, skip)))
        builder.store(builder.add(builder.load(total), term), total)
    store(builder, mixed(builder, builder.load(total)), out)


@subroutine
def exact_sums(packed, count, before, proof):
    """The two halves of an exact hash over `count` tokens that `before` others precede."""
    one, two = _ZERO, _ZERO
    spread, other_spread = get(proof + 8 * EXACT_SPREAD), get(proof + 8 * (EXACT_SPREAD + 1))
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
    """Make token hashes of sums, where they lie."""
    for i in range(0, count, LANES):
        _mix_vector(sums + 8 * i)


@subroutine
def row_shingles(tokens, count, size, keys, out):
    """Fingerprints of a document of one token or more."""
    used = min(size, count)
    shingles = count - used + 1
    for i in range(0, shingles, LANES):
        _shingle_vector(tokens + 8 * i, used, keys + 8 * SHINGLE, out + 8 * i)
    return shingles
