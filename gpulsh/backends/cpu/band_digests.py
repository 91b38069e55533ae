"""band_digests: one sum of products a digest; vectors written by hand would gain nothing here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends import protocol
from gpulsh.backends.cpu.chunks import Threads, by_count
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.mixing import mixed
from gpulsh.backends.hashing import place_keys
from gpulsh.params import BandShape

CHUNK_DOCUMENTS = 4096

_U = np.uint64
_GOLDEN = _U(protocol.GOLDEN)
_NO_DIGEST, _INSTEAD = _U(protocol.NO_DIGEST), _U(protocol.INSTEAD_OF_NO_DIGEST)


@kernel
def _band_digests(signatures, no_value, rows, keys, digests):
    for document in range(signatures.shape[0]):
        signature = signatures[document]
        empty = True
        for value in signature:
            if value != no_value:
                empty = False
                break
        for band in range(digests.shape[1]):
            digest = _U(band + 1) * _GOLDEN
            for place in range(rows):
                digest += keys[place] * _U(signature[band * rows + place])
            digest = mixed(digest)
            if digest == _NO_DIGEST:
                digest = _INSTEAD
            digests[document, band] = _NO_DIGEST if empty else digest


def band_digests(threads: Threads, signatures: NDArray[np.unsignedinteger], shape: BandShape) -> NDArray[np.uint64]:
    signatures = np.ascontiguousarray(signatures)
    digests = np.empty((len(signatures), shape.bands), np.uint64)
    keys, no_value = place_keys(protocol.STREAM_BAND, shape.rows), ~signatures.dtype.type(0)
    threads.map(
        lambda start, stop: _band_digests(signatures[start:stop], no_value, shape.rows, keys, digests[start:stop]),
        by_count(len(signatures), CHUNK_DOCUMENTS),
    )
    return digests
