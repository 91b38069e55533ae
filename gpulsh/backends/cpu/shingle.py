"""tokens and shingles, and one pass from text to shingle, shingle_sets, shingle_part, exact_hashes or signatures."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Fingerprints, Numbers, Signed, TextBatch, Tokens, Values, Words
from gpulsh.backends.cpu.buckets import band_digests
from gpulsh.backends.cpu.fingerprinting.documents import shingle_tokens
from gpulsh.backends.cpu.fingerprinting.keys import kernel_keys
from gpulsh.backends.cpu.passes import NO_HASHES, TextPass, one_row
from gpulsh.backends.cpu.rows import unique_rows
from gpulsh.backends.cpu.sketches import Minima, sketch_of
from gpulsh.backends.cpu.threads import SETS, Room, Scratch, Threads, by_weight
from gpulsh.backends.cpu.vectors import LANES
from gpulsh.backends.parts import rows_in_part, union_of
from gpulsh.backends.protocol import Keys
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.secret import EvidenceKeys

CHUNK_TOKENS = 1 << 15

_scratch = Scratch()


def tokens(threads: Threads, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Tokens:
    found = TextPass(threads, text, shingling, keys, size=0).in_order()
    return Tokens(found.values, found.offset)


def shingles(threads: Threads, tokens: Tokens, size: int, keys: Keys = None) -> Fingerprints:
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


def shingle(threads: Threads, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Fingerprints:
    return TextPass(threads, text, shingling, keys).in_order()


def set_rows(texts: TextPass, start: int, stop: int, room: Room, part: int = 0, parts: int = 1) -> Fingerprints:
    """Documents [start, stop): the fingerprints of each in part `part` of `parts` ranges, ascending, each once."""
    pieces = texts.pieces(start, stop)
    if parts > 1:
        pieces = (rows_in_part(rows, part, parts) for rows in pieces)
    if texts.is_giant(start, stop):
        return one_row(union_of((rows.values.copy() for rows in pieces), room.take))
    found = unique_rows(next(pieces))
    room.take(len(found.values))
    return found


def shingle_sets(threads: Threads, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Fingerprints:
    texts, room = TextPass(threads, text, shingling, keys), threads.room(text)
    return texts.rows(lambda start, stop: set_rows(texts, start, stop, room), together=True)


def shingle_part(
    threads: Threads, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: Keys = None
) -> Fingerprints:
    texts, room = TextPass(threads, text, shingling, keys), Room(threads.memory >> SETS + 1)
    return texts.rows(lambda start, stop: set_rows(texts, start, stop, room, part, parts))


def exact_hashes(threads: Threads, text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> tuple[Words, Numbers]:
    texts = TextPass(threads, text, shingling, proof=keys, size=0)
    hashes, counts = np.empty((len(text), 2), np.uint64), np.empty(len(text), np.int64)

    def work(start: int, stop: int) -> None:
        counts[start:stop] = sum(rows.lengths for rows in texts.pieces(start, stop, hashes[start:stop]))

    texts.map(work)
    return hashes, counts


def text_signatures(threads: Threads, text: TextBatch, shingling: Shingling, family: Family) -> Values:
    texts, sketch = TextPass(threads, text, shingling), sketch_of(family)
    signatures = np.empty((len(text), family.num_perm), family.value_type)
    texts.map(lambda start, stop: _sign_rows(texts, start, stop, sketch, signatures[start:stop]))
    return signatures


def sign(
    threads: Threads, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape, keys: EvidenceKeys
) -> Signed:
    count = len(text)
    digests = np.empty((shape.bands, count), np.uint64).T  # band after band, the order in which they are read later
    exact, shingles = np.empty((count, 2), np.uint64), np.empty(count, np.int64)
    one, texts, sketch = Threads(1), TextPass(threads, text, shingling, proof=keys), sketch_of(family)

    def work(start: int, stop: int) -> None:
        # A chunk passes all stages on one thread; its signatures do not outlive it.
        signatures = np.empty((stop - start, family.num_perm), family.value_type)
        shingles[start:stop] = _sign_rows(texts, start, stop, sketch, signatures, exact[start:stop])
        digests[start:stop] = band_digests(one, signatures, shape)

    texts.map(work)
    return Signed(digests, exact, shingles)


def _sign_rows(
    texts: TextPass, start: int, stop: int, sketch: Minima, signatures: Values, exact: Words = NO_HASHES
) -> Numbers:
    """Sign documents [start, stop) into `signatures`; int64 [documents] shingles.

    The pieces of a giant are folded, so its fingerprints are never together. `signatures` also hold the state if it has
    their columns.
    """
    shape = len(signatures), sketch.columns
    state = signatures if signatures.shape == shape else np.empty(shape, sketch.dtype)
    pieces = texts.pieces(start, stop, exact)
    rows = next(pieces)
    sketch.fold_into(rows, state)
    shingles: Numbers = rows.lengths
    for rows in pieces:
        state = sketch.merge(state, sketch.fold(rows))
        shingles = shingles + rows.lengths
    finished = sketch.finish(state)
    if finished is not signatures:
        signatures[:] = finished
    return shingles
