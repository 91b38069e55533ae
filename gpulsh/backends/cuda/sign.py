"""sign: text to band digests and exact hashes in as few cuts as device memory allows."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Signed, TextBatch
from gpulsh.backends.cuda.exact_hashes import exact_hashes
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.pieces import TextPieces, sign_in_pieces
from gpulsh.backends.cuda.set_sketch import DeviceSketch
from gpulsh.backends.cuda.staging import Staging
from gpulsh.backends.cuda.tokens import Table, token_sums
from gpulsh.params import BandShape, Shingling

_log = logging.getLogger("gpulsh")


@dataclass(frozen=True)
class Signer:
    """All that `sign` needs beside the text."""

    machine: Machine
    table: Table
    staging: Staging
    piece_bytes: int  # of a document that is larger than the device
    shingling: Shingling
    sketch: DeviceSketch
    shape: BandShape
    keys: DeviceKeys  # public
    proof: DeviceKeys

    def sign(self, text: TextBatch) -> Signed:
        """A batch, halved until it fits; a document alone that does not fit goes through in pieces."""
        signed = self._whole(text)
        if signed is not None:
            return signed
        xp = self.machine.arrays
        xp.get_default_memory_pool().free_all_blocks()
        size = int(text.offset[-1]) - int(text.offset[0])
        if len(text) == 1:
            _log.warning("device memory does not hold a document of %d bytes at once; it is signed in pieces", size)
            pieces = TextPieces(self.machine, self.table, self.shingling, self.keys, self.piece_bytes)
            return sign_in_pieces(pieces, text, self.sketch, self.shape, self.proof)
        _log.warning("device memory does not hold a batch of %d bytes; it is halved", size)
        middle = _middle(text)
        left, right = self.sign(text.slice(0, middle)), self.sign(text.slice(middle, len(text)))
        return Signed(
            xp.concatenate((left.digests, right.digests)),
            xp.concatenate((left.exact, right.exact)),
            xp.concatenate((left.shingles, right.shingles)),
        )

    def _whole(self, text: TextBatch) -> Signed | None:
        """None where device memory does not suffice; then nothing of the attempt is held any more."""
        xp = self.machine.arrays
        try:
            there = self.staging.on_device(text)
            tokens = token_sums(self.machine, self.table, there, self.shingling.unit, self.keys, self.proof)
            digests, shingles = self.sketch.digests(tokens, self.shingling.size, self.shape, self.keys)
            digests = xp.ascontiguousarray(digests.T).T  # band after band, as they are read later
            return Signed(digests, exact_hashes(self.machine, tokens, self.proof), shingles)
        except xp.cuda.memory.OutOfMemoryError:
            return None


def _middle(text: TextBatch) -> int:
    """The document at which two or more fall into halves of about equal bytes, neither without a document."""
    offset = text.offset.get() if hasattr(text.offset, "get") else text.offset
    half = int(np.searchsorted(offset, (int(offset[0]) + int(offset[-1])) // 2, side="right")) - 1
    return min(max(half, 1), len(text) - 1)
