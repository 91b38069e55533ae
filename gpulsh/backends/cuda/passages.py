"""winnow and token_bounds: samples of windows of tokens, and the bytes of tokens.

winnow: a thread a fingerprint, which looks around for a lesser one. token_bounds: the bit masks of `tokens`, in which a
thread a token finds its own.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints, TextBatch
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.texts import marks_of
from gpulsh.params import Shingling


def winnow(machine: Machine, fingerprints: Fingerprints, size: int) -> Array:
    xp, geometry = machine.arrays, machine.geometry
    total = machine.number(fingerprints.offset[-1] - fingerprints.offset[0])
    chosen = xp.empty(total, np.uint8)
    machine.run(
        *("winnow", "winnow", total, geometry.threads * geometry.search_items),
        *(fingerprints.values, fingerprints.offset, np.int64(len(fingerprints)), np.int64(size)),
        *(np.int32(geometry.search_items), chosen),
    )
    return xp.flatnonzero(chosen) + fingerprints.offset[:1]


def token_bounds(machine: Machine, text: TextBatch, shingling: Shingling, row: Array, token: Array) -> Array:
    """Extra memory: about a byte for each byte of text."""
    xp, geometry, count, text = machine.arrays, machine.geometry, len(row), machine.staging.on_device(text)
    bounds = xp.empty((count, 2), np.int64)
    if count == 0:
        return bounds
    marks = marks_of(machine, text, shingling, machine.number(text.offset[-1] - text.offset[0]))
    masks, strips, characters = marks[:2], len(marks.code_points), np.int32(shingling.unit == "char")
    tokens, points = xp.empty(strips, np.int64), xp.empty(strips, np.int64)
    machine.run(
        *("token_bounds", "token_bounds_counts", strips, geometry.threads),
        *(*masks, np.int64(strips), characters, tokens, points),
    )
    machine.run(
        *("token_bounds", "token_bounds", count, geometry.threads),
        *(text.values, text.offset, characters, *masks, xp.cumsum(tokens), xp.cumsum(points), np.int64(strips)),
        *(xp.ascontiguousarray(row), xp.ascontiguousarray(token), np.int64(count), bounds),
    )
    return bounds
