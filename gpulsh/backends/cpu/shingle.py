"""One pass from text to shingle, shingle_sets, shingle_part, exact_hashes, text_signatures or sign."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Signed, TextBatch, Values
from gpulsh.backends.cpu.buckets import band_digests
from gpulsh.backends.cpu.fingerprinting.documents import fingerprint_characters, fingerprint_words
from gpulsh.backends.cpu.fingerprinting.keys import kernel_keys, kernel_table
from gpulsh.backends.cpu.fingerprinting.words import RUN_WORDS
from gpulsh.backends.cpu.giants import giant_pieces, giant_set, is_giant, one_row, set_chunks, text_chunks
from gpulsh.backends.cpu.memory import Room, Scratch
from gpulsh.backends.cpu.sketches import sketch_of
from gpulsh.backends.cpu.sketches.minima import Minima
from gpulsh.backends.cpu.threads import SETS, Threads
from gpulsh.backends.cpu.tokens import most_tokens
from gpulsh.backends.cpu.unique import unique_rows
from gpulsh.backends.cpu.vectors import LANES
from gpulsh.backends.parts import in_part
from gpulsh.params import BandShape, Family, Shingling
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

    The fingerprints are public, or under `keys`; the exact hashes are under `proof`. The fingerprints stay in the
    thread's scratch memory until its next call. Giants are for `giants`.
    """
    offset = np.ascontiguousarray(text.offset[start : stop + 1])
    words = shingling.unit == "word"
    lengths = most_tokens(np.diff(offset), shingling)
    longest = int(lengths.max(initial=0)) + LANES
    values, room = _scratch.take("values", int(lengths.sum()) + LANES), _scratch.take("room", 2 * longest + RUN_WORDS)
    made = np.zeros(len(offset), np.int64)
    exact = np.empty((stop - start if proof else 0, 2), np.uint64)
    # Addresses of arrays that are held here.
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
    # The most there can be; untouched pages take no memory.
    found = np.empty(int(most_tokens(np.diff(text.offset[row : row + 2]), shingling)[0]), np.uint64)
    count = 0
    for values in giant_pieces(text, row, shingling, keys):
        found[count : count + len(values)] = values
        count += len(values)
    return one_row(found[:count])


def shingle_sets(
    threads: Threads, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None
) -> Fingerprints:
    room = threads.room(text)
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
    threads: Threads, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: EvidenceKeys | None = None
) -> Fingerprints:
    room = Room(threads.memory >> SETS + 1)

    def work(start: int, stop: int) -> Fingerprints:
        if is_giant(text, start, stop):
            return giant_set(text, start, shingling, room, keys, part, parts)
        rows, _ = shingle_rows(text, start, stop, shingling, keys)
        # The fingerprints of the range are chosen before they are made unique.
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


def text_signatures(threads: Threads, text: TextBatch, shingling: Shingling, family: Family) -> Values:
    signatures, sketch = np.empty((len(text), family.num_perm), family.value_type), sketch_of(family)
    threads.map(
        lambda start, stop: _sign_rows(text, start, stop, shingling, sketch, signatures[start:stop]),
        text_chunks(text.offset, threads),
    )
    return signatures


def sign(
    threads: Threads, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape, keys: EvidenceKeys
) -> Signed:
    count = len(text)
    digests = np.empty((shape.bands, count), np.uint64).T  # band after band, the order in which they are read later
    exact, shingles = np.empty((count, 2), np.uint64), np.empty(count, np.int64)
    one, sketch = Threads(1), sketch_of(family)

    def work(start: int, stop: int) -> None:
        # A chunk passes all stages on one thread; its signatures do not outlive it.
        signatures = np.empty((stop - start, family.num_perm), family.value_type)
        shingles[start:stop], exact[start:stop] = _sign_rows(text, start, stop, shingling, sketch, signatures, keys)
        digests[start:stop] = band_digests(one, signatures, shape)

    threads.map(work, text_chunks(text.offset, threads))
    return Signed(digests, exact, shingles)


def _sign_rows(
    text: TextBatch,
    start: int,
    stop: int,
    shingling: Shingling,
    sketch: Minima,
    signatures: Values,
    proof: EvidenceKeys | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Sign documents [start, stop) into `signatures`; int64 [documents] shingles, and exact hashes under `proof`.

    The pieces of a giant, which is a chunk alone, are folded, so its fingerprints are never together.
    """
    if not is_giant(text, start, stop):
        rows, exact = shingle_rows(text, start, stop, shingling, proof=proof)
        sketch.sign_into(rows, signatures)
        return rows.lengths, exact
    exact = np.empty((1 if proof else 0, 2), np.uint64)
    state, shingles = sketch.empty(1), 0
    for values in giant_pieces(text, start, shingling, proof=proof, exact=exact[0] if proof else None):
        state = sketch.merge(state, sketch.fold(one_row(values)))
        shingles += len(values)
    signatures[:] = sketch.finish(state)
    return np.array([shingles]), exact
