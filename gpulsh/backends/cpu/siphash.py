"""SipHash-2-4 with 128 bits (Aumasson, Bernstein 2012), which `gpulsh.backends.keyed` explains."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel, subroutine

_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_FIRST, _SECOND, _ZERO = np.uint64(0xEE), np.uint64(0xDD), np.uint64(0)
_8, _13, _16, _17, _21, _24 = (np.uint64(bits) for bits in (8, 13, 16, 17, 21, 24))
_32, _43, _47, _48, _51, _56 = (np.uint64(bits) for bits in (32, 43, 47, 48, 51, 56))


@subroutine
def _round(v0, v1, v2, v3):
    v0 += v1
    v2 += v3
    v1 = ((v1 << _13) | (v1 >> _51)) ^ v0
    v3 = ((v3 << _16) | (v3 >> _48)) ^ v2
    v0 = (v0 << _32) | (v0 >> _32)
    v2 += v1
    v0 += v3
    v1 = ((v1 << _17) | (v1 >> _47)) ^ v2
    v3 = ((v3 << _21) | (v3 >> _43)) ^ v0
    v2 = (v2 << _32) | (v2 >> _32)
    return v0, v1, v2, v3


@subroutine
def _word(values, at):
    low = np.uint64(values[at]) | np.uint64(values[at + 1]) << _8
    low |= np.uint64(values[at + 2]) << _16 | np.uint64(values[at + 3]) << _24
    high = np.uint64(values[at + 4]) | np.uint64(values[at + 5]) << _8
    high |= np.uint64(values[at + 6]) << _16 | np.uint64(values[at + 7]) << _24
    return low | high << _32


@kernel
def hash_rows(values, offset, key_0, key_1, hashes):
    for row in range(offset.size - 1):
        at, stop = offset[row], offset[row + 1]
        v0, v1 = _V0 ^ key_0, _V1 ^ key_1 ^ _FIRST
        v2, v3 = _V2 ^ key_0, _V3 ^ key_1
        last = np.uint64(stop - at) << _56
        while at + 8 <= stop:
            word = _word(values, at)
            v3 ^= word
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
        shift = _ZERO
        for place in range(at, stop):
            last |= np.uint64(values[place]) << shift
            shift += _8
        v3 ^= last
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= last
        v2 ^= _FIRST
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[row, 0] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= _SECOND
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[row, 1] = v0 ^ v1 ^ v2 ^ v3
