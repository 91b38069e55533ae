"""gather: a copy of memory a text, for which Python makes no object and other threads do not wait."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.vectors import copy
from gpulsh.errors import ParameterError
from gpulsh.ragged import offsets


@kernel
def _gather(source, begin, target, offset):
    for row in range(begin.size):
        copy(source + begin[row], target + offset[row], offset[row + 1] - offset[row])


def gather(values: NDArray[np.uint8], begin: Numbers, end: Numbers) -> TextBatch:
    values, begin, offset = np.ascontiguousarray(values), np.ascontiguousarray(begin), offsets(end - begin)
    if len(begin) and (int(begin.min()) < 0 or int(end.max()) > len(values) or bool((begin > end).any())):
        raise ParameterError(f"texts begin or end outside [0, {len(values)}]; give where each begins and ends in it")
    copied = np.empty(int(offset[-1]), np.uint8)
    _gather(values.ctypes.data, begin, copied.ctypes.data, offset)
    copied.flags.writeable = False  # as all texts are, which are of one type to the kernels
    return TextBatch(copied, offset)
