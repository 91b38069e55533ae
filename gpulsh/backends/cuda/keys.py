"""Keys on the device: those of evidence, or the public ones, which near places have in a table alike."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from gpulsh.arrays import Array
from gpulsh.backends.cuda.waiting import done
from gpulsh.backends.hashing import public_words
from gpulsh.secret import EvidenceKeys


class DeviceKeys(NamedTuple):
    """All words of a secret, or the public keys of a token's near places and of a shingle's."""

    words: Array
    secret: bool


def keys_on_device(arrays: ModuleType, keys: EvidenceKeys | None) -> DeviceKeys:
    """The keys of evidence, or the public ones."""
    return done(arrays, DeviceKeys(arrays.asarray(public_words() if keys is None else keys.words), keys is not None))
