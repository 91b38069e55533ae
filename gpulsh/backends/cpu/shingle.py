"""shingle, shingle_sets, shingle_part and exact_hashes: one pass from text to the result, giants piece by piece."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu.chunks import Threads
from gpulsh.backends.cpu.fingerprinting.documents import fingerprint_characters, fingerprint_words
from gpulsh.backends.cpu.fingerprinting.keys import kernel_keys, kernel_table
from gpulsh.backends.cpu.fingerprinting.words import RUN_WORDS
from gpulsh.backends.cpu.giants import giant_pieces, giant_set, is_giant, one_row, set_chunks, text_chunks
from gpulsh.backends.cpu.room import Room, Scratch
from gpulsh.backends.cpu.tokens import most_tokens
from gpulsh.backends.cpu.unique import unique_rows
from gpulsh.backends.cpu.vectors import LANES
from gpulsh.backends.parts import in_part
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys

_scratch = Scratch()


def shingle_rows(
    text: TextBatch,
    start: int,
    stop: int,
    shingling: Shingling,
    keys: EvidenceKeys | None = None,
    *,
    proof: EvidenceKeys | None = None,
) -> tuple[Fingerprints, NDArray[np.uint64]]:
    """Documents [start, stop): fingerprints, and exact hashes [documents, 2] (or [0, 2]).

    The fingerprints are public or, where they are given, under `keys`; the exact hashes under `proof`, if given. The
    fingerprints lie in the thread's scratch memory, until its next call. Giants are for `giants`.
    """
    offset = np.ascontiguousarray(text.offset[start : stop + 1])
    words = shingling.unit == "word"
    lengths = most_tokens(np.diff(offset), shingling)
    longest = int(lengths.max(initial=0)) + LANES
    values, room = _scratch.take("values", int(lengths.sum()) + LANES), _scratch.take("room", 2 * longest + RUN_WORDS)
    made = np.zeros(len(offset), np.int64)
    exact = np.empty((stop - start if proof else 0, 2), np.uint64)
    # Addresses: whatever lies there is held here.
    table, hashing, proving = kernel_table(shingling.reading), kernel_keys(keys), kernel_keys(proof)
    where, size, tokens = text.values.ctypes.data, shingling.size, room.ctypes.data
    readable = table.room(text)
    packed = tokens + 8 * longest
    held = (tokens, packed, values.ctypes.data)
    given = (hashing.address, hashing.secret, proving.address, proving.secret)
    if words:
        run = packed + 8 * longest
        fingerprint_words(where, readable, offset, size, *table.at, *given, *held, run, made[1:], exact)
    else:
        fingerprint_characters(where, readable, offset, size, *table.at, *given, *held, made[1:], exact)
    return Fingerprints(values[: made[-1]], made), exact


def shingle(threads: Threads, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
    def work(start: int, stop: int) -> Fingerprints:
        if is_giant(text, start, stop):
            return _giant(text, start, shingling, keys)
        rows, _ = shingle_rows(text, start, stop, shingling, keys)
        return Fingerprints(rows.values.copy(), rows.offset)

    return threads.rows(work, text_chunks(text.offset, threads))


def _giant(text: TextBatch, row: int, shingling: Shingling, keys: EvidenceKeys | None) -> Fingerprints:
    # As many as there can be; what stays untouched takes no memory.
    found = np.empty(int(most_tokens(np.diff(text.offset[row : row + 2]), shingling)[0]), np.uint64)
    count = 0
    for values in giant_pieces(text, row, shingling, keys):
        found[count : count + len(values)] = values
        count += len(values)
    return one_row(found[:count])


def shingle_sets(
    text: TextBatch, shingling: Shingling, threads: Threads, room: Room, keys: EvidenceKeys | None
) -> Fingerprints:
    return threads.rows(
        lambda start, stop: set_rows(text, start, stop, shingling, room, keys), set_chunks(text.offset, threads)
    )


def set_rows(
    text: TextBatch, start: int, stop: int, shingling: Shingling, room: Room, keys: EvidenceKeys | None
) -> Fingerprints:
    """Documents [start, stop), or one giant: the fingerprints of each, ascending, each once."""
    if is_giant(text, start, stop):
        return giant_set(text, start, shingling, room, keys)
    found = unique_rows(shingle_rows(text, start, stop, shingling, keys)[0])
    room.take(len(found.values))
    return found


def shingle_part(
    text: TextBatch,
    shingling: Shingling,
    part: int,
    parts: int,
    keys: EvidenceKeys | None,
    threads: Threads,
    room: Room,
) -> Fingerprints:
    def work(start: int, stop: int) -> Fingerprints:
        if is_giant(text, start, stop):
            return giant_set(text, start, shingling, room, keys, part, parts)
        rows, _ = shingle_rows(text, start, stop, shingling, keys)
        # Those of the range are chosen before they are made unique.
        inside = np.flatnonzero(in_part(rows.values, part, parts))
        return unique_rows(Fingerprints(rows.values[inside], np.searchsorted(inside, rows.offset)))

    return threads.rows(work, text_chunks(text.offset, threads))


def exact_hashes(threads: Threads, text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> NDArray[np.uint64]:
    hashes = np.empty((len(text), 2), np.uint64)

    def work(start: int, stop: int) -> None:
        if is_giant(text, start, stop):
            for _ in giant_pieces(text, start, shingling, proof=keys, exact=hashes[start]):
                pass
        else:
            hashes[start:stop] = shingle_rows(text, start, stop, shingling, proof=keys)[1]

    threads.map(work, text_chunks(text.offset, threads))
    return hashes
