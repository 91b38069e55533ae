"""The kernel that takes a piece of one document after another, cut where no token is."""

from __future__ import annotations

import numpy as np

from gpulsh.backends import protocol
from gpulsh.backends.cpu.fingerprinting.characters import character_sums, decode, table_entry
from gpulsh.backends.cpu.fingerprinting.keys import KEYS, far_key, packing
from gpulsh.backends.cpu.fingerprinting.rows import exact_sums, mix_tokens, row_shingles
from gpulsh.backends.cpu.fingerprinting.words import word_sums
from gpulsh.backends.cpu.kernel import kernel, subroutine
from gpulsh.backends.cpu.vectors import byte, get, put
from gpulsh.backends.unicode_table import SINGLE, WORD

_U = np.uint64
_ZERO, _LENGTH = _U(0), _U(protocol.LENGTH)


@subroutine
def _cut(text, start, size, stop, words, stage1, stage2):
    """The end of a piece of `size` bytes: between characters, and between tokens where these are words.

    `start` where no token is known to end within the piece. Bytes that can only go on with a character are in no cut,
    so a piece may be longer by a tail of them, which makes no token more.
    """
    at = start + size
    while at < stop and byte(text + at) & 0xC0 == 0x80:
        at += 1
    if at >= stop:
        return stop
    if not words:
        return at
    while at > start:
        if byte(text + at) & 0xC0 != 0x80:
            point, _ = decode(text, at, stop)
            if table_entry(point, stage1, stage2) & 3 != WORD:
                return at
        at -= 1
    return start


@subroutine
def _long_token(text, at, stop, stage1, stage2, keys, secret, proof, proves, sums, packed):
    """(end, tokens) of a word from which `_cut` found no way out, and of a single that may stand before it."""
    total, pack, place, count = _ZERO, _ZERO, np.int64(0), np.int64(0)
    while at < stop:
        point, size = decode(text, at, stop)
        entry = table_entry(point, stage1, stage2)
        klass = entry & 3
        value = _U(point + (entry >> 2))
        if klass == WORD:
            if place < KEYS:
                total += get(keys + 8 * place) * value
                pack += get(proof + 8 * place + packing(value)) * value
            else:
                total += far_key(place, keys, secret) * value
                pack += far_key(place, proof, proves) * value
            place += 1
        elif place > 0:
            break
        elif klass == SINGLE:
            put(sums, get(keys) * value + _LENGTH)
            put(packed, get(proof + packing(value)) * value)
            count = 1
        at += size
    if place > 0:
        put(sums + 8 * count, total + _U(place) * _LENGTH)
        put(packed + 8 * count, pack)
        count += 1
    return at, count


@kernel
def fingerprint_piece(
    text,
    room,
    stop,
    piece,
    words,
    size,
    stage1,
    stage2,
    keys,
    secret,
    proof,
    proves,
    state,
    sums,
    carried,
    tokens,
    packed,
    values,
    run,
):
    """The shingles that end in the next piece of one document of `stop` bytes, into `values`; how many they are.

    Between pieces are kept: `state` int64 [4], the place in the text, the tokens before it, whether separators stand
    there and how many tokens are carried; `sums` uint64 [2], which are the exact hash in the end where it `proves`;
    `carried` uint64 [size], the last size - 1 tokens.
    """
    at, before, gap, held = state[0], state[1], state[2] != 0, state[3]
    for i in range(held):
        put(tokens + 8 * i, carried[i])
    fresh = tokens + 8 * held
    end = _cut(text, at, piece, stop, words, stage1, stage2)
    if not words:
        count, gap = character_sums(
            text + at, end - at, room - at, stage1, stage2, keys, proof, fresh, packed, before > 0, gap
        )
    elif end > at:
        count = word_sums(
            text + at, end - at, room - at, stage1, stage2, keys, secret, proof, proves, fresh, packed, run
        )
    else:
        end, count = _long_token(text, at, stop, stage1, stage2, keys, secret, proof, proves, fresh, packed)
    mix_tokens(fresh, count)
    if proves:
        one, two = exact_sums(packed, count, before, proof)
        sums[0], sums[1] = sums[0] + one, sums[1] + two
    before += count
    count += held
    held = min(count, size - 1)
    for i in range(held):
        carried[i] = get(tokens + 8 * (count - held + i))
    state[0], state[1], state[2], state[3] = end, before, gap, held
    if count >= size or (end == stop and 0 < before < size):
        return row_shingles(tokens, count, size, keys, values)
    return 0
