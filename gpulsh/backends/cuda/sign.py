"""sign: text to band digests and exact hashes in as few cuts as device memory allows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from gpulsh.arrays import Signed, TextBatch
from gpulsh.backends.cuda.exact_hashes import exact_hashes
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.pieces import TextPieces, sign_in_pieces
from gpulsh.backends.cuda.set_sketch import DeviceSketch
from gpulsh.backends.cuda.staging import Staging
from gpulsh.backends.parts import halves_of_batch, in_fitting_halves
from gpulsh.params import BandShape

_log = logging.getLogger("gpulsh")


@dataclass(frozen=True)
class Signer:
    """All that `sign` needs beside the text."""

    pieces: TextPieces  # under public keys
    staging: Staging
    sketch: DeviceSketch
    shape: BandShape
    proof: DeviceKeys

    def sign(self, text: TextBatch) -> Signed:
        """A batch, halved until it fits; a document alone that does not fit goes through in pieces."""
        parts = [signed for _, signed in in_fitting_halves(text, self._whole, self._halves, self._in_pieces)]
        if len(parts) == 1:
            return parts[0]
        columns = zip(*((part.digests, part.exact, part.shingles) for part in parts), strict=True)
        return Signed(*map(self.pieces.machine.arrays.concatenate, columns))

    def _whole(self, text: TextBatch) -> Signed:
        machine, size, public = self.pieces.machine, self.pieces.shingling.size, self.pieces.keys
        with machine.here():
            tokens = self.pieces.tokens(self.staging.on_device(text), self.proof)
            digests, shingles = self.sketch.digests(tokens, size, self.shape, public)
            digests = machine.arrays.ascontiguousarray(digests.T).T  # band after band, as they are read later
            return Signed(digests, exact_hashes(machine, tokens, self.proof), shingles)

    def _halves(self, text: TextBatch) -> Sequence[TextBatch]:
        self._too_large(text, "a batch of %d bytes; it is halved")
        return halves_of_batch(text)

    def _in_pieces(self, text: TextBatch) -> Signed:
        self._too_large(text, "a document of %d bytes at once; it is signed in pieces")
        return sign_in_pieces(self.pieces, text, self.sketch, self.shape, self.proof)

    def _too_large(self, text: TextBatch, told: str) -> None:
        """Tell so, and return the memory of the attempt to the device."""
        _log.warning("device memory does not hold %s", told % (int(text.offset[-1]) - int(text.offset[0])))
        self.pieces.machine.arrays.get_default_memory_pool().free_all_blocks()
