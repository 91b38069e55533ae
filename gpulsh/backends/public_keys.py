"""The public keys of `protocol`, in NumPy; the reference has a way of its own."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.mixing import mixed
from gpulsh.backends.protocol import GOLDEN, STREAM_SHINGLE, STREAM_TOKEN
from gpulsh.secret import LONGEST_SHINGLE, PLACES


@cache
def place_keys(stream: int, count: int) -> NDArray[np.uint64]:
    """key(stream, place) for the first `count` places."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.full(count, stream, np.uint64)
    keys: NDArray[np.uint64] = mixed(x) | np.uint64(1)
    return keys


def public_words() -> NDArray[np.uint64]:
    """The keys of a token's near places and of a shingle's, as those of a secret begin."""
    return np.concatenate([place_keys(STREAM_TOKEN, PLACES), place_keys(STREAM_SHINGLE, LONGEST_SHINGLE)])
