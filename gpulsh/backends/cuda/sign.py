"""sign and shingle_part: whole batches where they fit, halves of them, or a document a piece of text at a time.

The bits are the same in each case. A piece of b bytes has at most b + 1 tokens and size - 1 carried ones. It takes a
byte for each byte of text, 16 for each token (sums, and their copy behind the carried ones) and 8 for each fingerprint.
`shingle_part` takes another byte for each fingerprint, and the sort of the chosen ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Signed, TextBatch
from gpulsh.backends.cuda.buckets import band_digests
from gpulsh.backends.cuda.cuts import cut_pieces
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.memory import on_host
from gpulsh.backends.cuda.rows import unique
from gpulsh.backends.cuda.sketches import DeviceSketch
from gpulsh.backends.cuda.staging import Staging
from gpulsh.backends.cuda.texts import (
    DeviceKeys,
    Table,
    TokenSums,
    add_exact_terms,
    exact_hashes,
    shingle_sums,
    token_sums,
)
from gpulsh.backends.parts import halves_of_batch, in_fitting_halves, in_part
from gpulsh.params import BandShape, Shingling
from gpulsh.ragged import first_of_runs, offsets

_log = logging.getLogger("gpulsh")


class TokenPiece(NamedTuple):
    """The tokens of one piece of a document; `tokens.skip` skips a leading space that is not the document's."""

    tokens: TokenSums
    before: int  # tokens of earlier pieces
    last: bool

    @property
    def fresh(self) -> int:
        """Tokens of the document that begin in this piece."""
        return max(len(self.tokens.sums) - self.tokens.skip, 0)


class TextPieces(NamedTuple):
    """How texts are cut and hashed if the device does not hold them whole: `piece_bytes` at a time."""

    machine: Machine
    table: Table
    shingling: Shingling
    keys: DeviceKeys
    piece_bytes: int

    def tokens(self, text: TextBatch, proof: DeviceKeys | None = None) -> TokenSums:
        """The tokens of texts on the device."""
        return token_sums(self.machine, self.table, text, self.shingling.unit, self.keys, proof)


@dataclass(frozen=True)
class Signer:
    """The operation `sign` with all it needs beside the text."""

    pieces: TextPieces  # under public keys
    staging: Staging
    sketch: DeviceSketch
    shape: BandShape
    proof: DeviceKeys

    def sign(self, text: TextBatch) -> Signed:
        """A batch, halved until it fits; a single document that does not fit is signed in pieces."""
        parts = [signed for _, signed in in_fitting_halves(text, self._whole, self._halves, self._too_long)]
        if len(parts) == 1:
            return parts[0]
        columns = zip(*((part.digests, part.exact, part.shingles) for part in parts), strict=True)
        return Signed(*map(self.pieces.machine.arrays.concatenate, columns))

    def in_pieces(self, document: TextBatch) -> Signed:
        """One document, a batch of one row on the host or the device: sketches of pieces merge, sums add up.

        The device holds one piece at a time, and more only if one token is longer.
        """
        machine, sketch = self.pieces.machine, self.sketch
        xp = machine.arrays
        state, exact = sketch.empty(1), xp.zeros((1, 2), np.uint64)
        carried, shingles = xp.zeros(0, np.uint64), 0
        for piece in _token_pieces(self.pieces, document, self.proof):
            add_exact_terms(machine, piece.tokens, piece.before, self.proof, exact)
            fingerprints, carried = _shingle_piece(self.pieces, carried, piece)
            state = sketch.merge(state, sketch.fold(fingerprints))
            shingles += len(fingerprints.values)
        digests = band_digests(machine, sketch.finish(state), self.shape)
        return Signed(digests, exact, xp.full(1, np.int64(shingles), np.int64))

    def _whole(self, text: TextBatch) -> Signed:
        machine, size, public = self.pieces.machine, self.pieces.shingling.size, self.pieces.keys
        with machine.here():
            tokens = self.pieces.tokens(self.staging.on_device(text), self.proof)
            digests, shingles = self.sketch.digests(tokens, size, self.shape, public)
            digests = machine.arrays.ascontiguousarray(digests.T).T  # band by band, as later steps read them
            return Signed(digests, exact_hashes(machine, tokens, self.proof), shingles)

    def _halves(self, text: TextBatch) -> Sequence[TextBatch]:
        self._recover(text, "a batch of %d bytes; it is halved")
        return halves_of_batch(text)

    def _too_long(self, text: TextBatch) -> Signed:
        self._recover(text, "a document of %d bytes at once; it is signed in pieces")
        return self.in_pieces(text)

    def _recover(self, text: TextBatch, message: str) -> None:
        """Log the message, and return the memory of the attempt to the device."""
        _log.warning("device memory does not hold %s", message % (int(text.offset[-1]) - int(text.offset[0])))
        self.pieces.machine.arrays.get_default_memory_pool().free_all_blocks()


def shingle_part(pieces: TextPieces, text: TextBatch, part: int, parts: int) -> Fingerprints:
    """The operation. `text` is on the host or on the device.

    The device holds a piece of text with its tokens and fingerprints, and the result. While pieces join the part of a
    long document, it holds that part up to six times: additions may be as large, and a sort takes two copies.
    """
    machine, xp = pieces.machine, pieces.machine.arrays
    offset = on_host(xp, text.offset)
    found = []
    row = 0
    while row < len(text):
        stop = int(np.searchsorted(offset, offset[row] + pieces.piece_bytes, side="right")) - 1
        if stop > row:  # as many whole documents as a piece holds
            batch = TextBatch(
                xp.asarray(text.values[offset[row] : offset[stop]]), xp.asarray(offset[row : stop + 1] - offset[row])
            )
            fingerprints = shingle_sums(machine, pieces.tokens(batch), pieces.shingling.size, pieces.keys)
            inside = in_part(fingerprints.values, part, parts)
            rows = offsets(inside)[fingerprints.offset]
            found.append(unique(machine, Fingerprints(fingerprints.values[inside], rows)))
        else:
            stop = row + 1
            document = TextBatch(text.values, offset[row : stop + 1])
            found.append(_set_of_pieces(pieces, document, part, parts))
        row = stop
    if len(found) == 1:
        return found[0]
    sizes = xp.concatenate([xp.zeros(0, np.int64), *(xp.diff(rows.offset) for rows in found)])
    values = xp.concatenate([xp.zeros(0, np.uint64), *(rows.values for rows in found)])
    return Fingerprints(values, offsets(sizes))


def _token_pieces(pieces: TextPieces, document: TextBatch, proof: DeviceKeys | None = None) -> Iterator[TokenPiece]:
    xp = pieces.machine.arrays
    start, stop = on_host(xp, document.offset).tolist()
    before = 0

    def read(low: int, high: int) -> NDArray[np.uint8]:
        return on_host(xp, document.values[start + low : start + high])

    how = pieces.shingling
    for piece in cut_pieces(read, stop - start, how.unit, pieces.piece_bytes, how.reading):
        text = xp.asarray(document.values[start + piece.start : start + piece.stop])
        batch = TextBatch(text, xp.asarray(np.array([0, piece.stop - piece.start], np.int64)))
        tokens = pieces.tokens(batch, proof)
        if piece.spaced and before > 0:
            tokens = tokens._replace(skip=0)
        found = TokenPiece(tokens, before, piece.stop == stop - start)
        yield found
        before += found.fresh


def _shingle_piece(pieces: TextPieces, carried: Array, piece: TokenPiece) -> tuple[Fingerprints, Array]:
    """The shingles that end in this piece, and the last size - 1 sums, for those that end in the next."""
    machine, xp, size = pieces.machine, pieces.machine.arrays, pieces.shingling.size
    sums = xp.concatenate((carried, piece.tokens.sums[piece.tokens.skip :]))
    short = piece.last and piece.before + piece.fresh < size  # the document's only shingle
    tokens = len(sums) if len(sums) >= size or short else 0
    starts = xp.asarray(np.array([0, tokens], np.int64))
    fingerprints = shingle_sums(machine, TokenSums(sums[:tokens], starts, 0), size, pieces.keys)
    return fingerprints, sums[max(len(sums) - size + 1, 0) :].copy()


def _set_of_pieces(pieces: TextPieces, document: TextBatch, part: int, parts: int) -> Fingerprints:
    """The row of a document: additions of pieces are set aside until they are as many as those held, then merged."""
    machine, xp = pieces.machine, pieces.machine.arrays
    carried = xp.zeros(0, np.uint64)
    runs: list[Array] = [carried]  # the values held, then those set aside
    for piece in _token_pieces(pieces, document):
        fingerprints, carried = _shingle_piece(pieces, carried, piece)
        inside = in_part(fingerprints.values, part, parts)
        runs.append(_merge(machine, [fingerprints.values[inside]]))
        if piece.last or sum(map(len, runs[1:])) >= len(runs[0]):
            runs = [_merge(machine, runs)]
    return Fingerprints(runs[0], xp.asarray(np.array([0, len(runs[0])], np.int64)))


def _merge(machine: Machine, runs: list[Array]) -> Array:
    """`unique` of all values as one row, by one sort; `runs` is emptied before it."""
    xp = machine.arrays
    values = xp.concatenate(runs)
    runs.clear()
    values = xp.sort(values)
    return values[first_of_runs(values)]
