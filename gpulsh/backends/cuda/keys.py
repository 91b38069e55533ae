"""Keys on the device: those of evidence, or the public ones, which near places have in a table alike."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array
from gpulsh.backends.cuda.waiting import done
from gpulsh.backends.protocol import GOLDEN, MIX_1, MIX_2, STREAM_SHINGLE, STREAM_TOKEN
from gpulsh.backends.recent import Recent
from gpulsh.secret import LONGEST_SHINGLE, PLACES, EvidenceKeys

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
            words = self._arrays.asarray(_public_words() if keys is None else keys.words)
            return done(self._arrays, DeviceKeys(words, keys is not None))

        return self._recent.of(keys, make)

    def forget_secrets(self) -> None:
        """Only the public keys are needed by whoever comes next."""
        self._recent.forget(lambda keys: keys is not None)


def _public_words() -> NDArray[np.uint64]:
    return np.concatenate([_keys(STREAM_TOKEN, PLACES), _keys(STREAM_SHINGLE, LONGEST_SHINGLE)])


def _keys(stream: int, count: int) -> NDArray[np.uint64]:
    """key(stream, place) for the first `count` places."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.full(count, stream, np.uint64)
    x = (x ^ x >> np.uint64(27)) * np.uint64(MIX_1)
    x = (x ^ x >> np.uint64(33)) * np.uint64(MIX_2)
    keys: NDArray[np.uint64] = (x ^ x >> np.uint64(27)) | np.uint64(1)
    return keys
