"""Keys on the device: those of evidence, or the public ones, which near places have in a table alike."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from gpulsh.arrays import Array
from gpulsh.backends.cuda.waiting import done
from gpulsh.backends.public_keys import public_words
from gpulsh.backends.recent import Recent
from gpulsh.secret import EvidenceKeys

KEPT = 8  # of what is asked for again and again, and is small


class DeviceKeys(NamedTuple):
    """All words of a secret, or the public keys of a token's near places and of a shingle's."""

    words: Array
    secret: bool


class KeysOnDevice:
    """Keys that were asked for."""

    def __init__(self, arrays: ModuleType) -> None:
        self._arrays = arrays
        self._recent = Recent[EvidenceKeys | None, DeviceKeys](KEPT)

    def of(self, keys: EvidenceKeys | None) -> DeviceKeys:
        """The keys of evidence, or the public ones."""

        def make() -> DeviceKeys:
            words = self._arrays.asarray(public_words() if keys is None else keys.words)
            return done(self._arrays, DeviceKeys(words, keys is not None))

        return self._recent.of(keys, make)

    def forget_secrets(self) -> None:
        """Only the public keys are needed by whoever comes next."""
        self._recent.forget(lambda keys: keys is not None)
