"""Unicode normalization before folding, when `Folding.form` asks for it."""

from __future__ import annotations

import unicodedata

from gpulsh.arrays import TextBatch, on_host
from gpulsh.io.rows import Bytes, joined
from gpulsh.params import NormalForm


def normalized(batch: TextBatch, form: NormalForm | None) -> TextBatch:
    """Each document in that form, with U+FFFD for invalid bytes; unchanged without a form, or if all is ASCII.

    A batch on a device that is not all ASCII comes back on the host.

    >>> import numpy as np
    >>> text = "e\u0301".encode()
    >>> bytes(
    ...     normalized(TextBatch(np.frombuffer(text, np.uint8), np.array([0, len(text)])), "NFC").values
    ... ).decode()
    'é'
    """
    if form is None:
        return batch
    first, last = int(batch.offset[0]), int(batch.offset[-1])
    if not (batch.values[first:last] >= 0x80).any():
        return batch
    batch = batch.moved(on_host)  # where the tables are
    data = batch.values.data
    pieces: list[Bytes] = []
    for start, stop in zip(batch.offset[:-1].tolist(), batch.offset[1:].tolist(), strict=True):
        raw = bytes(data[start:stop])
        if not raw.isascii():
            raw = unicodedata.normalize(form, raw.decode("utf-8", "replace")).encode()
        pieces.append(raw)
    return joined(pieces)
