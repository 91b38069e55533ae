"""sign and shingle_part: whole batches if they fit, halves of them, or one document piece by piece.

The bits are the same in each case. A piece of b bytes has at most b + 1 tokens and size - 1 carried ones. It takes a
byte for each byte of text, 16 for each token (sums, and their copy after the carried ones) and 8 for each fingerprint.
`shingle_part` takes another byte for each fingerprint, and the sort of the chosen ones.

A cut between pieces splits no well-formed UTF-8 sequence and, for words, no token: it is not between two code points of
class *word*. Tokens of characters never span code points. If a separator adjoins the cut, the space in front of the
later piece's first character belongs to the document, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Numbers, SignedBatch, TextBatch
from gpulsh.backends.cuda.buckets import band_digests
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.memory import device_of, on_device, on_host
from gpulsh.backends.cuda.rows import unique
from gpulsh.backends.cuda.sketches import set_sketch
from gpulsh.backends.cuda.texts import TokenSums, exact_terms, shingle, shingle_sums, token_sums
from gpulsh.backends.parts import halves_of_batch, rows_in_part, run_in_fitting_halves, union_of
from gpulsh.backends.protocol import Keys
from gpulsh.backends.unicode_table import SEPARATOR, WORD, unicode_table
from gpulsh.params import PLAIN, BandShape, Family, Reading, Shingling, Unit
from gpulsh.ragged import concat_rows, row_ranges
from gpulsh.secret import EvidenceKeys

Read = Callable[[int, int], NDArray[np.uint8]]  # the document's bytes [low, high)

FIRST_WINDOW, LAST_WINDOW, GROWTH = 64, 1 << 20, 16  # bytes searched together
CONTEXT = 4  # no sequence is longer

_log = logging.getLogger("gpulsh")


def sign(
    machine: Machine, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape, keys: EvidenceKeys
) -> SignedBatch:
    """A batch is halved until it fits; a single document that does not fit is signed in pieces."""

    def whole(some: TextBatch) -> SignedBatch:
        with machine.use_device():
            tokens = token_sums(machine, some, shingling, None, keys)
            digests, shingles = set_sketch(machine, family).digests(tokens, shingling.size, shape)
            digests = machine.arrays.ascontiguousarray(digests.T).T  # band by band, as later steps read them
            return SignedBatch(digests, exact_terms(machine, tokens, keys), shingles)

    def halves(some: TextBatch) -> Sequence[TextBatch]:
        _recover(machine, some, "a batch of %d bytes; it is halved")
        with device_of(some.offset):
            return halves_of_batch(some)

    def too_long(document: TextBatch) -> SignedBatch:
        _recover(machine, document, "a document of %d bytes at once; it is signed in pieces")
        return sign_in_pieces(machine, document, shingling, family, shape, keys, _piece_bytes(machine))

    return SignedBatch.concat([signed for _, signed in run_in_fitting_halves(text, whole, halves, too_long)])


def _recover(machine: Machine, text: TextBatch, message: str) -> None:
    """Log the message, and return the memory of the attempt to the device."""
    with device_of(text.offset):
        _log.warning("device memory does not hold %s", message % (int(text.offset[-1]) - int(text.offset[0])))
    machine.arrays.get_default_memory_pool().free_all_blocks()


def _piece_bytes(machine: Machine) -> int:
    """The text of a document that the device holds at a time, if not all of it."""
    return min(machine.geometry.piece_bytes, machine.sizes().tile)


def sign_in_pieces(
    machine: Machine,
    document: TextBatch,
    shingling: Shingling,
    family: Family,
    shape: BandShape,
    keys: EvidenceKeys,
    most: int,
) -> SignedBatch:
    """One document, a batch of one row on the host or the device: sketches of pieces merge, sums add up.

    The device holds one piece of `most` bytes at a time, and more only if one token is longer.
    """
    xp, sketch = machine.arrays, set_sketch(machine, family)
    state, exact, shingles = sketch.empty(1), xp.zeros((1, 2), np.uint64), 0
    for tokens, before, fingerprints in _pieces(machine, document, shingling, None, most, keys):
        exact += exact_terms(machine, tokens, keys, before)
        state = sketch.merge(state, sketch.fold(fingerprints))
        shingles += len(fingerprints.values)
    digests = band_digests(machine, sketch.finish(state), shape)
    return SignedBatch(digests, exact, xp.full(1, np.int64(shingles), np.int64))


def shingle_part(
    machine: Machine, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: Keys = None
) -> Fingerprints:
    """The device holds a piece of text with its tokens and fingerprints, and the result.

    While pieces join the part of a long document, it holds that part up to six times: additions may be as large, and a
    sort takes two copies.
    """
    xp, most = machine.arrays, _piece_bytes(machine)
    offset = on_host(xp, text.offset)
    found = [Fingerprints(xp.zeros(0, np.uint64), xp.zeros(1, np.int64))]
    for start, stop in row_ranges(offset, most):
        with device_of(text.offset):
            some = text.slice(start, stop)
        if offset[stop] - offset[start] > most:
            pieces = _pieces(machine, some, shingling, keys, most)
            values = union_of(rows_in_part(piece, part, parts).values for _, _, piece in pieces)
            found.append(Fingerprints(values, xp.asarray(np.array([0, len(values)], np.int64))))
        else:
            found.append(unique(machine, rows_in_part(shingle(machine, some, shingling, keys), part, parts)))
    return concat_rows(found[1:] or found)


def _bytes(text: TextBatch, start: int, stop: int) -> Array:
    """Bytes [start, stop) of the values, a view in their own memory."""
    with device_of(text.values):
        return text.values[start:stop]


def _pieces(
    machine: Machine,
    document: TextBatch,
    shingling: Shingling,
    keys: Keys,
    most: int,
    proof: EvidenceKeys | None = None,
) -> Iterator[tuple[TokenSums, int, Fingerprints]]:
    """The tokens of each piece, how many of the document come before them, and the shingles that end in the piece."""
    xp, size = machine.arrays, shingling.size
    start, stop = on_host(xp, document.offset).tolist()
    before, carried = 0, xp.zeros(0, np.uint64)  # the last size - 1 sums, which the next piece needs

    def read(low: int, high: int) -> NDArray[np.uint8]:
        return on_host(xp, _bytes(document, start + low, start + high))

    for piece in cut_pieces(read, stop - start, shingling.unit, most, shingling.reading):
        text = on_device(xp, _bytes(document, start + piece.start, start + piece.stop))
        batch = TextBatch(text, xp.asarray(np.array([0, piece.stop - piece.start], np.int64)))
        tokens = token_sums(machine, batch, shingling, keys, proof)
        if piece.spaced and before > 0:
            tokens = tokens._replace(skip=0)  # the leading space is the document's
        sums = xp.concatenate((carried, tokens.sums[tokens.skip :]))
        after = before + len(sums) - len(carried)
        short = piece.stop == stop - start and after < size  # the document's only shingle
        whole = len(sums) if len(sums) >= size or short else 0
        starts = xp.asarray(np.array([0, whole], np.int64))
        fingerprints = shingle_sums(machine, TokenSums(sums[:whole], starts, 0), size, keys)
        carried = sums[max(len(sums) - size + 1, 0) :].copy()
        del sums
        yield tokens, before, fingerprints
        before = after


class Piece(NamedTuple):
    """Bytes [start, stop) of a document."""

    start: int
    stop: int
    spaced: bool  # a separator adjoins `start`, on either side; False at the document's start


def cut_pieces(read: Read, length: int, unit: Unit, piece_bytes: int, reading: Reading = PLAIN) -> Iterator[Piece]:
    """A document of `length` bytes as pieces of at most `piece_bytes`, longer only where one token is."""
    start, spaced = 0, False
    while start < length:
        limit, stop, spaced_next = start + piece_bytes + 1, length, False
        for low, high in _windows(start + 1, limit, length) if limit <= length else ():
            begin = max(low - CONTEXT, 0)
            starts, classes = _code_points(read(begin, min(high + CONTEXT, length)).tobytes(), reading)
            places, before, behind = begin + starts[1:], classes[:-1], classes[1:]
            allowed = (places >= low) & (places < high)
            if unit == "word":
                allowed &= (before != WORD) | (behind != WORD)
            if (found := np.flatnonzero(allowed)).size:
                cut = found[-1] if high <= limit else found[0]  # the nearest
                stop, spaced_next = int(places[cut]), SEPARATOR in (before[cut], behind[cut])
                break
        yield Piece(start, stop, spaced)
        start, spaced = stop, spaced_next


def _windows(low: int, middle: int, high: int) -> Iterator[tuple[int, int]]:
    """Ranges of bytes from `middle` down to `low`, then from it up to `high`, each larger than the one before."""
    end, size = middle, FIRST_WINDOW
    while end > low:
        yield max(low, end - size), end
        end, size = end - size, min(size * GROWTH, LAST_WINDOW)
    begin, size = middle, FIRST_WINDOW
    while begin < high:
        yield begin, min(begin + size, high)
        begin, size = begin + size, min(size * GROWTH, LAST_WINDOW)


def _code_points(text: bytes, reading: Reading) -> tuple[Numbers, NDArray[np.uint8]]:
    """Where each code point begins, and its class; a byte in no well-formed sequence is a separator of its own."""
    # Python reads such bytes as surrogates, which are separators in the table.
    code = np.frombuffer(text.decode("utf-8", "surrogateescape").encode("utf-32-le", "surrogatepass"), np.uint32)
    escaped = code >> 8 == 0xDC
    sizes = np.where(escaped, 1, 1 + (code >= 0x80).astype(np.int64) + (code >= 0x800) + (code >= 0x10000))
    classes = (unicode_table(reading).entries(code) & 3).astype(np.uint8)
    return np.cumsum(sizes) - sizes, classes
