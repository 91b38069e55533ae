"""band_digests: the sum of the definition in Python integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.protocol import GOLDEN, INSTEAD_OF_NO_DIGEST, NO_DIGEST, STREAM_BAND
from gpulsh.backends.reference.hashing import key, mix64
from gpulsh.params import BandShape


def band_digests(signatures: NDArray[np.unsignedinteger], shape: BandShape) -> NDArray[np.uint64]:
    digests = np.full((len(signatures), shape.bands), NO_DIGEST, np.uint64)
    no_value = np.iinfo(signatures.dtype).max
    for signature, row in zip(signatures.tolist(), digests, strict=True):
        if any(value != no_value for value in signature):
            for band in range(shape.bands):
                row[band] = _digest(band, signature[band * shape.rows : (band + 1) * shape.rows])
    return digests


def _digest(band: int, values: list[int]) -> int:
    total = sum(key(STREAM_BAND, place) * value for place, value in enumerate(values))
    digest = mix64(total + (band + 1) * GOLDEN)
    return INSTEAD_OF_NO_DIGEST if digest == NO_DIGEST else digest
