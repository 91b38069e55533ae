"""Python's strings as UTF-8 for the readers of `gpulsh.io`, by a kernel: see `gpulsh.backends.cpu.strings`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch


def utf8(strings: list[Any], ascii: NDArray[np.bool_], first: int, most: int, threads: int) -> TextBatch:
    """The UTF-8 of strings from `first` on: at most `most` bytes, or one string; none where that has no UTF-8.

    `strings` holds str alone; `ascii` bool [n] says which are of ASCII alone. No other thread changes the list.

    >>> ascii = np.array([True, False, False])
    >>> utf8(["a", "\\u00e9", "\\ud800"], ascii, 0, 1 << 20, threads=1).offset.tolist()
    [0, 1, 3]
    """
    from gpulsh.backends.cpu.strings import encode
    from gpulsh.backends.cpu.threads import Threads

    return encode(strings, ascii, first, most, Threads(threads))
