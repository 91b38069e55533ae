"""sign and shingle_part of documents that need not fit on the device: a piece of text after another, the same bits.

A piece of b bytes has at most b + 1 tokens and size - 1 that are carried to it. Counted from the arrays below, it takes
a byte of text a byte, 16 a token for the sums and their copy behind those carried, 8 a fingerprint, and for
`shingle_part` one more to choose and the sort of those chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Signed, TextBatch
from gpulsh.backends.cuda.band_digests import band_digests
from gpulsh.backends.cuda.cuts import cut_pieces
from gpulsh.backends.cuda.exact_hashes import add_exact_terms
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.set_sketch import DeviceSketch
from gpulsh.backends.cuda.shingle import shingle_sums
from gpulsh.backends.cuda.tokens import Table, TokenSums, token_sums
from gpulsh.backends.cuda.unique import kept_rows, unique
from gpulsh.backends.cuda.waiting import on_host
from gpulsh.backends.parts import in_part
from gpulsh.params import BandShape, Shingling
from gpulsh.ragged import first_of_runs


class TokenPiece(NamedTuple):
    """The tokens of one piece of a document; `tokens.skip` passes over a leading space that is not the document's."""

    tokens: TokenSums
    before: int  # tokens of the pieces before
    last: bool

    @property
    def fresh(self) -> int:
        """Tokens of the document that begin in this piece."""
        return max(len(self.tokens.sums) - self.tokens.skip, 0)


class TextPieces(NamedTuple):
    """How texts are cut and hashed where the device need not hold them whole: `piece_bytes` at a time."""

    machine: Machine
    table: Table
    shingling: Shingling
    keys: DeviceKeys
    piece_bytes: int

    def tokens(self, text: TextBatch, proof: DeviceKeys | None = None) -> TokenSums:
        """The tokens of texts on the device."""
        return token_sums(self.machine, self.table, text, self.shingling.unit, self.keys, proof)


def sign_in_pieces(
    pieces: TextPieces, document: TextBatch, sketch: DeviceSketch, shape: BandShape, proof: DeviceKeys
) -> Signed:
    """`sign` of one document, of which the device holds a piece at a time, more only where one token is longer.

    `document` is a batch of one row, on the host or on the device. Sketches of pieces merge, sums add up.
    """
    machine = pieces.machine
    xp = machine.arrays
    state = sketch.empty(1)
    exact = xp.zeros((1, 2), np.uint64)
    carried, shingles = xp.zeros(0, np.uint64), 0
    for piece in _token_pieces(pieces, document, proof):
        add_exact_terms(machine, piece.tokens, piece.before, proof, exact)
        fingerprints, carried = _shingle_piece(pieces, carried, piece)
        state = sketch.merge(state, sketch.fold(fingerprints))
        shingles += len(fingerprints.values)
    return Signed(band_digests(machine, sketch.finish(state), shape), exact, xp.full(1, np.int64(shingles), np.int64))


def shingle_part(pieces: TextPieces, text: TextBatch, part: int, parts: int) -> Fingerprints:
    """The op. `text` is on the host or on the device.

    Besides a piece of text and what follows from them, the device holds the result; while pieces join a long
    document's part, that part up to six times: as much as is held may be set aside, and a sort takes two copies.
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
            found.append(unique(machine, kept_rows(machine, fingerprints.values, fingerprints.offset, inside)))
        else:
            stop = row + 1
            document = TextBatch(text.values, offset[row : stop + 1])
            found.append(_set_of_pieces(pieces, document, part, parts))
        row = stop
    if len(found) == 1:
        return found[0]
    sizes = xp.concatenate([xp.zeros(0, np.int64), *(xp.diff(rows.offset) for rows in found)])
    values = xp.concatenate([xp.zeros(0, np.uint64), *(rows.values for rows in found)])
    return Fingerprints(values, machine.exclusive(sizes))


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
    """The row of a document: what pieces add is set aside until it weighs as much as what is held, then sorted in."""
    machine, xp = pieces.machine, pieces.machine.arrays
    carried = xp.zeros(0, np.uint64)
    runs: list[Array] = [carried]  # what is held, then what is set aside
    for piece in _token_pieces(pieces, document):
        fingerprints, carried = _shingle_piece(pieces, carried, piece)
        inside = in_part(fingerprints.values, part, parts)
        runs.append(_merge(machine, [fingerprints.values[inside]]))
        if piece.last or sum(map(len, runs[1:])) >= len(runs[0]):
            runs = [_merge(machine, runs)]
    return Fingerprints(runs[0], xp.asarray(np.array([0, len(runs[0])], np.int64)))


def _merge(machine: Machine, runs: list[Array]) -> Array:
    """`unique` of all values as one row, for which one sort is enough; `runs` are let go before it."""
    xp = machine.arrays
    values = xp.concatenate(runs)
    runs.clear()
    values = xp.sort(values)
    return values[first_of_runs(values)]
