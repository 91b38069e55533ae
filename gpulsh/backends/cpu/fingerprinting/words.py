"""Words as tokens: two vector comparisons give the edges of words in 64 bytes as a bit mask.

The first 8 bytes of each word are stored; they are the packed token of a short word. A run of words is summed with a
word in each lane of a vector, and the rest of the few longer words is added. So no branch depends on the length of a
word. An ASCII symbol that is a token is a word of one letter. Only a block with a non-ASCII character of a token is
read code point by code point.
"""

from __future__ import annotations

import numpy as np

from gpulsh.backends import protocol
from gpulsh.backends.cpu.fingerprinting.characters import (
    BLOCK,
    TOKENS_FAR,
    WIDE,
    ascii_terms,
    block_terms,
    computed_terms,
    decode,
    far_factor,
    far_key,
    high_mask,
    lower_mask,
    packed_ascii,
    packing,
    sum_heads,
    table_entry,
    visible_mask,
    wide_terms,
    word_mask,
)
from gpulsh.backends.cpu.kernel import subroutine
from gpulsh.backends.cpu.vectors import (
    LANES,
    get_byte,
    get_word,
    leading_zeros,
    lowest_bit,
    popcount,
    prefetch,
    put_word,
)
from gpulsh.backends.unicode_table import SEPARATOR, SINGLE, WORD
from gpulsh.secret import PLACES

ROOM = BLOCK + WIDE  # bytes that may be read from a block's start
RUN = 512  # words that are summed together
AHEAD = 1024  # bytes of prefetch: other work between blocks misleads the processor's own
ROW = RUN + BLOCK + LANES
RUN_WORDS = 2 * ROW  # of memory for a run

_U = np.uint64
_ZERO, _ONE, _LENGTH = _U(0), _U(1), _U(protocol.LENGTH)
_LAST = _U(BLOCK - 1)
_START, _PLACE = _U(16), _U(0xFFFF)  # a longer word: its start in the text above its place in the run


@subroutine
def _ascii_sum(text, start, end, keys, secret):
    """The sum of one token of ASCII letters and digits, without its length; whole blocks may be read."""
    total = block_terms(text + start, min(end - start, BLOCK), keys)
    for place in range(BLOCK, end - start, BLOCK):
        at, size = text + start + place, min(end - start - place, BLOCK)
        if secret:
            total += block_terms(at, size, keys) * far_factor(place // PLACES, keys, TOKENS_FAR)
        else:
            total += computed_terms(at, size, place)
    return total


@subroutine
def _words_by_code_point(text, at, stop, until, table, keys, secret, proof, proves, sums, packed, count):
    """Tokens from a token boundary to the first separator at or after `until`."""
    total, pack, place = _ZERO, _ZERO, np.int64(0)
    while True:
        point, size, entry = 0, 0, SEPARATOR
        if at < stop:
            point, size = get_byte(text + at), 1
            if point >= 0x80:
                point, size = decode(text, at, stop)
            entry = table_entry(point, table)
        klass, value = entry & 3, _U(point + (entry >> 2))
        if klass == WORD:
            if place < PLACES:
                total += get_word(keys + 8 * place) * value
                pack += get_word(proof + 8 * place + packing(value)) * value
            else:
                total += far_key(place, keys, secret) * value
                pack += far_key(place, proof, proves) * value
            place += 1
            at += size
            continue
        if place > 0:
            put_word(sums + 8 * count, total + _U(place) * _LENGTH)
            put_word(packed + 8 * count, pack)
            count += 1
            total, pack, place = _ZERO, _ZERO, np.int64(0)
        if klass == SINGLE:
            put_word(sums + 8 * count, get_word(keys) * value + _LENGTH)
            put_word(packed + 8 * count, get_word(proof + packing(value)) * value)
            count += 1
        elif at >= until or at >= stop:
            return at, count
        at += size


@subroutine
def _belongs_to_token(text, at, high, stop, table):
    """Whether one of the non-ASCII characters that `high` marks in the block at `at` is part of a token."""
    while high != _ZERO:
        bit = lowest_bit(high)
        point, size = decode(text, at + bit, stop)
        if table_entry(point, table) & 3 != SEPARATOR:
            return True
        high &= ~(((_ONE << _U(size)) - _ONE) << _U(bit))
    return False


@subroutine
def _long_end(text, at, stop, room):
    """The end of a token of ASCII letters and digits that is open at `at`; -1 if other characters may follow."""
    while at + ROOM <= room and at < stop:
        word = word_mask(text + at)
        if at + BLOCK > stop:
            word &= (_ONE << _U(stop - at)) - _ONE
        if ~word != _ZERO:
            at += lowest_bit(~word)
            return -1 if at < stop and get_byte(text + at) >= 0x80 else at
        at += BLOCK
    return at if at == stop else -1


@subroutine
def _sum_words(text, keys, proof, proves, sums, packed, found, lengths, longer, long):
    """Sums of the words [found] whose first 8 bytes are in `packed`; `longer` [long] are the longer ones."""
    for i in range(0, found, LANES):
        sum_heads(packed + 8 * i, lengths + 8 * i, keys, sums + 8 * i)
    for i in range(long):
        word = get_word(longer + 8 * i)
        place, start = 8 * np.int64(word & _PLACE), np.int64(word >> _START)
        rest, size = text + start + 8, np.int64(get_word(lengths + place)) - 8
        total, pack = get_word(sums + place), get_word(packed + place)
        if size <= 8:
            total += ascii_terms(rest, size, keys + 64)
            if proves:
                pack += ascii_terms(rest, size, proof + 64)
        else:
            for at in range(0, size, WIDE):
                total += wide_terms(rest + at, size - at, keys + 64 + 8 * at)
                if proves:
                    pack += wide_terms(rest + at, size - at, proof + 64 + 8 * at)
        put_word(sums + place, total)
        put_word(packed + place, pack)


@subroutine
def _symbol_mask(text, word, size):
    """Which of a block's first `size` bytes are ASCII symbols; kept through a loop, it would slow plain words."""
    single = visible_mask(text) & ~word
    return single & (_ONE << _U(size)) - _ONE if size < BLOCK else single


@subroutine
def _restore_symbols(text, word, single, end):
    """Store again the symbols of a block that the folding of letters changed; 1 if its last byte is a symbol.

    That symbol is left to the next block, because it does not end within its own. The block's tokens end at `end`.
    """
    starts, last = word & ~(word << _ONE) | single, single >> _LAST
    first = end - 8 * (popcount(starts) - np.int64(word >> _LAST | last))
    raised = single & ~lower_mask(text)
    while raised != _ZERO:
        bit = lowest_bit(raised)
        put_word(first + 8 * popcount(starts & ((_ONE << _U(bit)) - _ONE)), _U(get_byte(text + bit)))
        raised &= raised - _ONE
    return np.int64(last)


@subroutine
def word_sums(text, stop, room, table, keys, secret, proof, proves, sums, packed, run, symbols):
    """Sums of all word tokens of one document of `stop` bytes; `room` bytes may be read.

    If symbols are not tokens, `symbols` is None: Numba then leaves their code out, so a first run compiles less.
    """
    lengths, longer = run, run + 8 * ROW
    at, count = np.int64(0), np.int64(0)
    found, long = np.int64(0), np.int64(0)
    while at < stop:  # no token is open at `at`
        by_code_point, until, end = at + ROOM > room, stop, -1
        word = _ZERO
        if not by_code_point:
            prefetch(text + at + AHEAD)
            word, high = word_mask(text + at), high_mask(text + at)
            if at + BLOCK > stop:
                valid = (_ONE << _U(stop - at)) - _ONE
                word, high = word & valid, high & valid
            # Reading on after this block spares scripts other than Latin most changes of method.
            until = at + BLOCK
            if ~word == _ZERO:
                end = _long_end(text, at + BLOCK, stop, room)
                by_code_point = end < 0
            elif high != _ZERO:
                by_code_point = _belongs_to_token(text, at, high, stop, table)
        if by_code_point or end >= 0 or found > RUN:
            _sum_words(text, keys, proof, proves, sums + 8 * count, packed + 8 * count, found, lengths, longer, long)
            count += found
            found, long = np.int64(0), np.int64(0)
            if by_code_point:
                at, count = _words_by_code_point(
                    text, at, stop, until, table, keys, secret, proof, proves, sums, packed, count
                )
                continue
            if end >= 0:
                put_word(sums + 8 * count, _ascii_sum(text, at, end, keys, secret) + _U(end - at) * _LENGTH)
                if proves:
                    head = packed_ascii(text + at, 8) - ascii_terms(text + at, 8, proof)
                    put_word(packed + 8 * count, _ascii_sum(text, at, end, proof, proves) + head)
                count += 1
                at = end
                continue
        before = word << _ONE
        starts, ends = word & ~before, before & ~word
        if symbols is not None:
            single = _symbol_mask(text + at, word, stop - at)
            starts, ends = starts | single, ends | single << _ONE
        while ends != _ZERO:
            start = lowest_bit(starts)
            length = lowest_bit(ends) - start
            put_word(packed + 8 * (count + found), packed_ascii(text + at + start, min(length, 8)))
            put_word(lengths + 8 * found, _U(length))
            put_word(longer + 8 * long, _U(at + start) << _START | _U(found))
            long += np.int64(length > 8)
            starts &= starts - _ONE
            ends &= ends - _ONE
            found += 1
        if symbols is not None:
            single = _symbol_mask(text + at, word, stop - at)
            at -= _restore_symbols(text + at, word, single, packed + 8 * (count + found))
        at += BLOCK - np.int64(leading_zeros(~word))
    _sum_words(text, keys, proof, proves, sums + 8 * count, packed + 8 * count, found, lengths, longer, long)
    return count + found
