"""winnow, window_hashes and token_bounds: samples and hashes of windows of tokens, and the bytes of tokens.

winnow: a window has the minimum of the previous window, or the new value. Only if that minimum has left the window is
the whole window searched. Hashes are random, so this is rare.

window_hashes: a few windows at a time, so that all steps of them stay in the first-level cache.

token_bounds: in 64 ASCII bytes where no wanted token begins or ends, bit masks count the tokens.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from gpulsh.arrays import Fingerprints, Numbers, TextBatch, Tokens, Words
from gpulsh.backends.cpu.fingerprinting.characters import (
    BLOCK,
    EXCLAMATION_MARK,
    decode,
    high_mask,
    kernel_keys,
    kernel_table,
    table_entry,
    visible_mask,
    word_mask,
)
from gpulsh.backends.cpu.fingerprinting.documents import row_shingles
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.threads import Threads
from gpulsh.backends.cpu.vectors import (
    I64,
    LANES,
    broadcast,
    copy,
    get_byte,
    get_word,
    llvm,
    load,
    mix64_lanes,
    popcount,
    store,
)
from gpulsh.backends.protocol import WINDOW_PART
from gpulsh.backends.unicode_table import SEPARATOR, SINGLE, WORD
from gpulsh.params import Shingling
from gpulsh.ragged import first_of_runs, offsets, row_ranges
from gpulsh.secret import SHINGLE, EvidenceKeys

CHUNK_FINGERPRINTS = 1 << 16
CHUNK_WINDOWS = 1 << 16
WINDOWS = 1 << 10  # hashed together
CHUNK_BYTES = 1 << 19

_U = np.uint64
_ZERO, _ONE, _LAST = _U(0), _U(1), _U(BLOCK - 1)


@kernel
def _winnowed(values, offset, size, places):
    """Fill `places` [fingerprints]; how many there are."""
    count = 0
    for row in range(offset.size - 1):
        begin, least = offset[row], -1
        for at in range(begin + size - 1, offset[row + 1]):
            first, before = at - size + 1, least
            if least < first:
                least = at
                for other in range(at - 1, first - 1, -1):
                    if get_word(values + 8 * other) < get_word(values + 8 * least):
                        least = other
            elif get_word(values + 8 * at) <= get_word(values + 8 * least):
                least = at
            if least != before:
                places[count] = least
                count += 1
    return count


def winnow(threads: Threads, fingerprints: Fingerprints, size: int) -> Numbers:
    values, offset = np.ascontiguousarray(fingerprints.values), np.ascontiguousarray(fingerprints.offset)

    def work(start: int, stop: int) -> Numbers:
        places = np.empty(int(offset[stop] - offset[start]), np.int64)
        return places[: _winnowed(values.ctypes.data, offset[start : stop + 1], size, places)].copy()

    longest = int(fingerprints.lengths.max(initial=0))
    if size > longest:
        return np.empty(0, np.int64)
    return np.concatenate(threads.map(work, row_ranges(offset, CHUNK_FINGERPRINTS)))


@llvm(types.void(types.int64, types.int64, types.uint64, types.uint64))
def _join_vector(builder: ir.IRBuilder, address: ir.Value, step: ir.Value, one: ir.Value, other: ir.Value) -> None:
    """Join 8 hashes, in place, with those `step` words farther on."""
    farther = load(builder, builder.add(address, builder.shl(step, ir.Constant(I64, 3))))
    first = builder.mul(load(builder, address), broadcast(builder, one))
    store(builder, mix64_lanes(builder, builder.add(first, builder.mul(farther, broadcast(builder, other)))), address)


@kernel
def _hash_windows(tokens, begin, windows, size, keys, most, room, hashes):
    """Hashes of runs to address `hashes`; `most` windows at a time are made in `room`."""
    one, other, part = get_word(keys + 8 * SHINGLE), get_word(keys + 8 * (SHINGLE + 1)), min(size, WINDOW_PART)
    written = 0
    for run in range(begin.size):
        for start in range(0, windows[run], most):
            count = min(windows[run] - start, most)
            left = count + size - 1
            copy(tokens + 8 * (begin[run] + start), room, 8 * left)
            left = row_shingles(room, left, part, keys, room)
            covered = part
            while covered < size:
                step = min(covered, size - covered)
                left -= step
                for i in range(0, left, LANES):
                    _join_vector(room + 8 * i, step, one, other)
                covered += step
            copy(room, hashes + 8 * written, 8 * count)
            written += count


def window_hashes(
    threads: Threads, tokens: Tokens, begin: Numbers, windows: Numbers, size: int, keys: EvidenceKeys
) -> tuple[Words, Words]:
    values, begin, windows = map(np.ascontiguousarray, (tokens.values, begin, windows))
    ends, most = offsets(windows), max(WINDOWS, 2 * size)
    public, secret = (np.empty(int(ends[-1]), np.uint64) for _ in range(2))
    ways = (kernel_keys(None), public), (kernel_keys(keys), secret)

    def work(start: int, stop: int) -> None:
        room = np.empty(most + size + 2 * LANES, np.uint64)
        for how, hashes in ways:
            runs = begin[start:stop], windows[start:stop], size, how.address, most
            _hash_windows(values.ctypes.data, *runs, room.ctypes.data, hashes.ctypes.data + 8 * int(ends[start]))

    threads.map(work, row_ranges(ends, CHUNK_WINDOWS))
    return public, secret


@kernel
def _bounds(address, offset, words, table, row, token, bounds):
    """Fill `bounds` [m, 2]. `table` is the address of the Unicode table."""
    symbols = table_entry(EXCLAMATION_MARK, table) & 3 != SEPARATOR
    wanted = 0
    while wanted < row.size:
        document = row[wanted]
        text, stop = address + offset[document], offset[document + 1] - offset[document]
        last = wanted
        while last < row.size and row[last] == document:
            last += 1
        at, count, begin, end = 0, 0, 0, 0  # `count` tokens have begun, the last of them at `begin`
        inside = False  # the last token may go on
        while wanted < last and at < stop:
            until = min(at + BLOCK, stop)
            if at + BLOCK <= stop and words and high_mask(text + at) == _ZERO:
                word = word_mask(text + at)
                begins = word & ~(word << _ONE | _U(inside))
                if symbols:
                    begins |= visible_mask(text + at) & ~word
                if token[wanted] >= count + popcount(begins):
                    count += popcount(begins)
                    inside = word >> _LAST != _ZERO
                    at += BLOCK
                    continue
            while at < until and wanted < last:
                point, size = get_byte(text + at), 1
                if point >= 0x80:
                    point, size = decode(text, at, stop)
                klass = table_entry(point, table) & 3
                if klass == SEPARATOR:
                    inside = False
                elif words and inside and klass == WORD:
                    end = at + size
                else:
                    while wanted < last and token[wanted] == count - 1:
                        bounds[wanted, 0], bounds[wanted, 1] = begin, end
                        wanted += 1
                    if not words and count > 0 and not inside:
                        while wanted < last and token[wanted] == count:
                            bounds[wanted, 0], bounds[wanted, 1] = end, at
                            wanted += 1
                        count += 1
                    count += 1
                    begin, end = at, at + size
                    inside = klass != SINGLE or not words
                at += size
        while wanted < last:
            bounds[wanted, 0], bounds[wanted, 1] = begin, end
            wanted += 1


def token_bounds(threads: Threads, text: TextBatch, shingling: Shingling, row: Numbers, token: Numbers) -> Numbers:
    values, offset = np.ascontiguousarray(text.values), np.ascontiguousarray(text.offset)
    row, token = np.ascontiguousarray(row), np.ascontiguousarray(token)
    table, words, bounds = kernel_table(shingling.reading), shingling.unit == "word", np.empty((len(row), 2), np.int64)
    starts = np.append(np.flatnonzero(first_of_runs(row)), len(row))
    weight = offsets(text.lengths[row[starts[:-1]]])

    def work(start: int, stop: int) -> None:
        here = slice(starts[start], starts[stop])
        _bounds(values.ctypes.data, offset, words, table.address, row[here], token[here], bounds[here])

    threads.map(work, row_ranges(weight, CHUNK_BYTES))
    return bounds
