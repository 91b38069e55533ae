"""Passes over text: from text to tokens, shingles, sets, exact hashes or signatures.

A thread takes a chunk of documents of about equal bytes, or a giant: a document above GIANT_BYTES, piece by piece. A
pass holds few fingerprints: they stay in the thread's scratch memory until its next chunk or piece. The last tokens of
a piece are carried to the next one, so every shingle is made once. A token longer than a piece makes its piece longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gpulsh.arrays import Fingerprints, Numbers, SignedBatch, TextBatch, Tokens, Values, Words
from gpulsh.backends.cpu.buckets import band_digests
from gpulsh.backends.cpu.fingerprinting.characters import kernel_keys, kernel_table
from gpulsh.backends.cpu.fingerprinting.documents import fingerprint_documents, fingerprint_piece, shingle_tokens
from gpulsh.backends.cpu.fingerprinting.words import RUN_WORDS
from gpulsh.backends.cpu.rows import unique_rows
from gpulsh.backends.cpu.sketches import Minima, sketch_of
from gpulsh.backends.cpu.threads import SCRATCH, Room, Scratch, Threads
from gpulsh.backends.cpu.vectors import LANES
from gpulsh.backends.parts import rows_in_part, union_of
from gpulsh.backends.protocol import Keys, Result
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.ragged import row_ranges, total_size
from gpulsh.secret import EvidenceKeys

SETS = 6  # log2 of the bytes for a fingerprint of a set: 16 for it and 16 for its text, in each of two items at work
CHUNK_BYTES = 1 << 18  # of text; it, its tokens and its fingerprints stay in the second-level cache
LONGEST_CHUNK = 1 << 20  # where each thread has so much
MAX_CHUNKS = 16  # of a batch, but for longest ones: two batches are at work, and more threads wait for Python's lock
GIANT_BYTES = 1 << 20  # a larger document is a giant
MAX_ALONE = 4 << 20  # of texts that one thread takes at once
PIECE_BYTES = 1 << 18  # text, tokens and fingerprints of a piece stay in the second-level cache

CHUNK_TOKENS = 1 << 15

NO_HASHES = np.empty((0, 2), np.uint64)


def one_row(values: Words) -> Fingerprints:
    """Fingerprints of one document."""
    return Fingerprints(values, np.array([0, len(values)]))


class TextPass:
    """The documents of `text`, with fingerprints that are public or under `keys`, and exact hashes under `proof`.

    Shingles have `size` tokens. The default is the size of the shingling. With 0, tokens replace fingerprints.
    """

    def __init__(
        self,
        threads: Threads,
        text: TextBatch,
        shingling: Shingling,
        keys: Keys = None,
        proof: Keys = None,
        size: int | None = None,
    ) -> None:
        self.threads, self.text, self._size = threads, text, shingling.size if size is None else size
        self._words = shingling.unit == "word"
        # Kernels take addresses of arrays that are held here.
        reading = shingling.reading
        self._table, self._keys, self._proof = kernel_table(reading), kernel_keys(keys), kernel_keys(proof)
        self._how = self._size, self._table.address, *self._keys[1:], *self._proof[1:]
        # Bytes that may be read in blocks; with 0, kernels look up each code point in the table, as it does not fold.
        self._at, self._readable = text.values.ctypes.data, len(text.values) if reading.case else 0
        self._symbols = True if self._words and shingling.symbols else None  # as kernels take it

    def map(self, work: Callable[[int, int], Result]) -> list[Result]:
        """`work(start, stop)` for each chunk of documents."""
        return self.threads.map(work, self._chunks())

    def rows(self, work: Callable[[int, int], Fingerprints], *, together: bool = False) -> Fingerprints:
        """The rows that `work(start, stop)` makes of each chunk, end to end; few bytes are one chunk if `together`."""
        offset = self.text.offset
        few = len(self.text) > 0 and offset[-1] - offset[0] <= MAX_ALONE and self.text.lengths.max() <= GIANT_BYTES
        if together and few and self.threads.is_busy():
            return work(0, len(self.text))
        return self.threads.rows(work, self._chunks())

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """Chunks of documents; giants are larger than a chunk, so each is alone.

        Chunks are long, because Python's work for each takes time and holds its lock. There are several a thread, up
        to MAX_CHUNKS, so threads wait little.
        """
        several = total_size(self.text) // min(2 * self.threads.count, MAX_CHUNKS)
        return row_ranges(self.text.offset, min(max(several, CHUNK_BYTES), LONGEST_CHUNK))

    def is_giant(self, start: int, stop: int) -> bool:
        """Whether documents [start, stop) are one giant."""
        return stop - start == 1 and int(self.text.offset[stop] - self.text.offset[start]) > GIANT_BYTES

    def max_tokens(self, start: int, stop: int) -> Numbers:
        """At least the number of tokens of each of the documents [start, stop).

        A word needs two bytes with its separator, a single has three, a character or a symbol one.
        """
        sizes: Numbers = self.text.offset[start + 1 : stop + 1] - self.text.offset[start:stop]
        return sizes // 2 + 1 if self._words and self._symbols is None else sizes

    def pieces(self, start: int, stop: int, exact: Words = NO_HASHES) -> Iterator[Fingerprints]:
        """The fingerprints of documents [start, stop): all at once, or the pieces of a giant, a row each.

        They are in text order, and valid until the thread's next ones. In the end, `exact` [documents, 2] holds the
        exact hashes if there is a proof.
        """
        if self.is_giant(start, stop):
            return self._pieces(start, exact[:1])
        return iter((self.small_fingerprints(start, stop, exact),))

    def small_fingerprints(self, start: int, stop: int, exact: Words = NO_HASHES) -> Fingerprints:
        """The fingerprints of documents [start, stop), no giant, all at once."""
        offset = np.ascontiguousarray(self.text.offset[start : stop + 1])
        made = np.zeros(len(offset), np.int64)
        most = self.max_tokens(start, stop)
        longest = int(most.max(initial=0)) + LANES
        values, room = SCRATCH.take("values", int(most.sum()) + LANES), SCRATCH.take("room", 2 * longest + RUN_WORDS)
        tokens = room.ctypes.data
        packed = tokens + 8 * longest
        memory = tokens, packed, values.ctypes.data, packed + 8 * longest
        given = self._at, self._readable, offset, self._how, memory, made[1:], exact
        units = (True, None) if self._words else (None, True)
        fingerprint_documents(*given, *units, self._symbols)
        return Fingerprints(values[: made[-1]], made)

    def fingerprints(self) -> Fingerprints:
        """The fingerprints of all documents, in text order."""
        return self.rows(self._in_order)

    def _in_order(self, start: int, stop: int) -> Fingerprints:
        if not self.is_giant(start, stop):
            rows = self.small_fingerprints(start, stop)
            is_scratch = rows.values.base.size <= Scratch.KEPT
            return Fingerprints(rows.values.copy() if is_scratch else rows.values, rows.offset)
        found, count = np.empty(int(self.max_tokens(start, stop)[0]), np.uint64), 0  # untouched pages take no memory
        for piece in self.pieces(start, stop):
            found[count : count + len(piece.values)] = piece.values
            count += len(piece.values)
        return one_row(found[:count])

    def _pieces(self, row: int, exact: Words) -> Iterator[Fingerprints]:
        begin, end = int(self.text.offset[row]), int(self.text.offset[row + 1])
        state, carried = np.zeros(4, np.int64), np.empty(self._size, np.uint64)
        sums = exact.reshape(-1)
        sums[:] = 0
        # A token a byte, a space before the first, and the carried tokens. The fingerprints take their place, a vector
        # earlier, so that no token is overwritten unread.
        values = SCRATCH.take("piece", LANES + PIECE_BYTES + 1 + self._size + LANES)
        packed, run = SCRATCH.take("packed", PIECE_BYTES + 1 + LANES), SCRATCH.take("run", RUN_WORDS)
        text = self._at + begin, self._readable - begin, end - begin, PIECE_BYTES, self._words, self._how
        memory = values[LANES:].ctypes.data, packed.ctypes.data, values.ctypes.data, run.ctypes.data
        while state[0] < end - begin:
            made = fingerprint_piece(*text, memory, state, sums, carried, self._symbols)
            yield one_row(values[:made])


def tokens(threads: Threads, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Tokens:
    found = TextPass(threads, text, shingling, keys, size=0).fingerprints()
    return Tokens(found.values, found.offset)


def shingles(threads: Threads, tokens: Tokens, size: int, keys: Keys = None) -> Fingerprints:
    hashing = kernel_keys(keys)

    def work(start: int, stop: int) -> Fingerprints:
        offset = tokens.offset[start : stop + 1] - tokens.offset[start]
        made, count = np.zeros(len(offset), np.int64), int(offset[-1])
        # Whole vectors are read and written, also after the last token.
        given, values = SCRATCH.take("given", count + size + LANES), SCRATCH.take("values", count + LANES)
        given[:count] = tokens.values[tokens.offset[start] : tokens.offset[stop]]
        shingle_tokens(given.ctypes.data, offset, size, hashing.address, values.ctypes.data, made[1:])
        return Fingerprints(values[: made[-1]].copy(), made)

    return threads.rows(work, row_ranges(tokens.offset, CHUNK_TOKENS))


def shingle(threads: Threads, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Fingerprints:
    return TextPass(threads, text, shingling, keys).fingerprints()


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
    texts = TextPass(threads, text, shingling, keys)
    room = Room(threads.memory >> SETS) if len(text) > 1 else Room()  # a single document has no limit
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
) -> SignedBatch:
    count = len(text)
    digests = np.empty((shape.bands, count), np.uint64).T  # band after band, the order in which they are read later
    exact, shingles = np.empty((count, 2), np.uint64), np.empty(count, np.int64)
    one, texts, sketch = threads.single_threaded(), TextPass(threads, text, shingling, proof=keys), sketch_of(family)

    def work(start: int, stop: int) -> None:
        # A chunk passes all stages on one thread; its signatures do not outlive it.
        signatures = np.empty((stop - start, family.num_perm), family.value_type)
        shingles[start:stop] = _sign_rows(texts, start, stop, sketch, signatures, exact[start:stop])
        digests[start:stop] = band_digests(one, signatures, shape)

    texts.map(work)
    return SignedBatch(digests, exact, shingles)


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
