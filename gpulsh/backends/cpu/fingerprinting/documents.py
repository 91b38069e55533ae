"""The kernels that pass over all documents of a chunk."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.fingerprinting.characters import character_sums
from gpulsh.backends.cpu.fingerprinting.rows import exact_sums, mix_tokens, row_shingles
from gpulsh.backends.cpu.fingerprinting.words import word_sums
from gpulsh.backends.cpu.kernel import kernel, subroutine


@subroutine
def _fingerprints(document, count, size, keys, proof, proves, tokens, packed, out, exact):
    """Fingerprints of a document whose `count` tokens are summed and packed, and its exact hash; how many they are."""
    mix_tokens(tokens, count)
    if proves:
        exact[document, 0], exact[document, 1] = exact_sums(packed, count, np.int64(0), proof)
    return row_shingles(tokens, count, size, keys, out) if count > 0 else 0


@kernel
def fingerprint_words(
    address, room, offset, size, stage1, stage2, keys, secret, proof, proves, tokens, packed, values, run, ends, exact
):
    """All documents of a chunk: fingerprints under `keys` end to end, their end positions, exact hashes under `proof`.

    No exact hash unless it `proves`. All but `offset`, `ends` and `exact` are numbers, or addresses of arrays.
    """
    written = 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop, out = address + begin, end - begin, values + 8 * written
        count = word_sums(text, stop, room - begin, stage1, stage2, keys, secret, proof, proves, tokens, packed, run)
        written += _fingerprints(document, count, size, keys, proof, proves, tokens, packed, out, exact)
        ends[document] = written


@kernel
def fingerprint_characters(
    address, room, offset, size, stage1, stage2, keys, secret, proof, proves, tokens, packed, values, ends, exact
):
    """Fingerprint all documents of a chunk with characters for tokens."""
    written = 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop, out = address + begin, end - begin, values + 8 * written
        count, _ = character_sums(text, stop, room - begin, stage1, stage2, keys, proof, tokens, packed, False, False)
        written += _fingerprints(document, count, size, keys, proof, proves, tokens, packed, out, exact)
        ends[document] = written


@kernel
def hash_tokens(address, room, offset, words, stage1, stage2, keys, secret, tokens, packed, run, ends):
    """All documents of a chunk: hashes of their tokens under `keys` end to end, and their end positions.

    All but `offset` and `ends` are numbers, or addresses of arrays.
    """
    written = 0
    for document in range(offset.size - 1):
        begin, end = offset[document], offset[document + 1]
        text, stop, out = address + begin, end - begin, tokens + 8 * written
        if words:
            count = word_sums(text, stop, room - begin, stage1, stage2, keys, secret, keys, False, out, packed, run)
        else:
            count, _ = character_sums(text, stop, room - begin, stage1, stage2, keys, keys, out, packed, False, False)
        mix_tokens(out, count)
        written += count
        ends[document] = written


@kernel
def shingle_tokens(tokens, offset, size, keys, values, ends):
    """All rows of tokens: their fingerprints under `keys` end to end, and their end positions."""
    written = 0
    for row in range(offset.size - 1):
        count = offset[row + 1] - offset[row]
        if count > 0:
            written += row_shingles(tokens + 8 * offset[row], count, size, keys, values + 8 * written)
        ends[row] = written
