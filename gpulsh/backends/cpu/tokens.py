"""tokens and shingles: the steps of the passes in `shingle`, one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch, Tokens
from gpulsh.backends.cpu.fingerprinting.documents import hash_tokens, shingle_tokens
from gpulsh.backends.cpu.fingerprinting.keys import kernel_keys, kernel_table
from gpulsh.backends.cpu.fingerprinting.words import RUN_WORDS
from gpulsh.backends.cpu.memory import Scratch
from gpulsh.backends.cpu.threads import CHUNK_BYTES, Threads, by_weight
from gpulsh.backends.cpu.vectors import LANES
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys

CHUNK_TOKENS = 1 << 15

_scratch = Scratch()


def tokens(threads: Threads, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Tokens:
    words, hashing, table = shingling.unit == "word", kernel_keys(keys), kernel_table(shingling.reading)
    where, room = text.values.ctypes.data, table.room(text)

    def work(start: int, stop: int) -> Fingerprints:
        offset = np.ascontiguousarray(text.offset[start : stop + 1])
        made = np.zeros(len(offset), np.int64)
        lengths = most_tokens(np.diff(offset), shingling)
        hashes = _scratch.take("hashes", int(lengths.sum()) + LANES)
        packed, run = _scratch.take("packed", int(lengths.max(initial=0)) + LANES), _scratch.take("run", RUN_WORDS)
        held = (hashes.ctypes.data, packed.ctypes.data, run.ctypes.data)
        hash_tokens(where, room, offset, words, *table.at, hashing.address, hashing.secret, *held, made[1:])
        return Fingerprints(hashes[: made[-1]].copy(), made)

    found = threads.rows(work, by_weight(text.offset, CHUNK_BYTES))
    return Tokens(found.values, found.offset)


def shingles(threads: Threads, tokens: Tokens, size: int, keys: EvidenceKeys | None = None) -> Fingerprints:
    hashing = kernel_keys(keys)

    def work(start: int, stop: int) -> Fingerprints:
        offset = tokens.offset[start : stop + 1] - tokens.offset[start]
        made, count = np.zeros(len(offset), np.int64), int(offset[-1])
        # Whole vectors are read and written, also after the last token.
        given, values = _scratch.take("given", count + size + LANES), _scratch.take("values", count + LANES)
        given[:count] = tokens.values[tokens.offset[start] : tokens.offset[stop]]
        shingle_tokens(given.ctypes.data, offset, size, hashing.address, values.ctypes.data, made[1:])
        return Fingerprints(values[: made[-1]].copy(), made)

    return threads.rows(work, by_weight(tokens.offset, CHUNK_TOKENS))


def most_tokens(lengths: NDArray[np.int64], shingling: Shingling) -> NDArray[np.int64]:
    """At least the number of tokens of documents of `lengths` bytes.

    A word needs two bytes with its separator, a single has three, a character or a symbol one.
    """
    return lengths // 2 + 1 if shingling.unit == "word" and not shingling.symbols else lengths
