"""The committed two-level table that maps a code point to (class, folded code point).

`unicode_table.txt` is written once by `ci/unicode-table` from the Unicode release its header names, so that neither the
Python version nor the platform can change a signature.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array
from gpulsh.params import PLAIN, Reading

SEPARATOR, WORD, SINGLE = 0, 1, 2
SYMBOL = 3  # in the file alone: a reading makes SINGLE or SEPARATOR of it
BLOCK_BITS = 7
STAGE1_SIZE = 0x110000 >> BLOCK_BITS


class UnicodeTable(NamedTuple):
    """`entry = stage2[stage1[code_point >> 7] << 7 | code_point & 127]`; class `entry & 3`, shift `entry >> 2`."""

    stage1: NDArray[np.uint16]  # [8704] block of each 128 code points
    stage2: NDArray[np.int32]  # [blocks * 128] (folded - code point) << 2 | class

    def entries(self, codes: Array) -> Array:
        """int32: the entries of uint32 code points, or of one."""
        blocks = self.stage1[codes >> BLOCK_BITS].astype(np.int64)
        return self.stage2[(blocks << BLOCK_BITS) + codes % (1 << BLOCK_BITS)]


@cache
def unicode_table(reading: Reading = PLAIN) -> UnicodeTable:
    """The shipped table for a reading, decoded once and read-only."""
    text = (files("gpulsh.backends") / "unicode_table.txt").read_text("ascii")
    packed = zlib.decompress(base64.b64decode("".join(line for line in text.splitlines() if not line.startswith("#"))))
    stage1 = np.frombuffer(packed, "<u2", STAGE1_SIZE).astype(np.uint16)
    stage2 = np.frombuffer(packed, "<i4", offset=2 * STAGE1_SIZE).astype(np.int32)
    stage2[stage2 & 3 == SYMBOL] += (SINGLE if reading.symbols else SEPARATOR) - SYMBOL
    if not reading.case:
        stage2 &= 3
    stage1.flags.writeable = stage2.flags.writeable = False
    return UnicodeTable(stage1, stage2)
