"""Long runs of blank lines are left out before lines are split: a gigabyte of them is a megabyte of gzip, and each
would be an object of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator

import numpy as np

SHORT = 16  # bytes: blocks whose lines are longer on average are split as they are
SAMPLED, STRIDE = 1 << 18, 61  # bytes of a block that is long, and how far apart those are that are looked at
NEWLINE = 10
RUN = 1024  # bytes of white space from which on they are left out: what is behind is a block of its own
SPAN = 1 << 18  # bytes that are looked at together, for each costs many while it is

SPACE = np.zeros(256, np.bool_)
SPACE[list(b" \t\n\r\v\f")] = True


class BlankLines:
    """The blocks of `source` without most blank lines, and how many were left out before the block given last.

    >>> lines = BlankLines([b"a" + bytes(3) + b"\\n" * 2000 + b"b"])
    >>> list(lines), lines.left_out
    ([b'a\\x00\\x00\\x00\\n', b'b'], 1999)
    """

    def __init__(self, source: Iterable[bytes]) -> None:
        self._source = source
        self.left_out = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self._source:
            if _is_dense(block):
                yield from self._dense(block)
            else:
                yield block
            del block

    def _dense(self, block: bytes) -> Iterator[bytes]:
        # The first newline of white space ends a line that may hold something, and the last begins one.
        written = 0
        for begin, end in _gaps(block):
            first, last = block.find(b"\n", begin, end) + 1, block.rfind(b"\n", begin, end) + 1
            if first == last:
                continue
            yield block[written:first]
            self.left_out += block.count(b"\n", first, last)
            written = last
        if written < len(block):
            yield block[written:]


def _is_dense(block: bytes) -> bool:
    """Whether lines are short on average, from a part of the block where it is long: counting all costs as much as
    splitting does. Which part nobody can know before; no row depends on it.
    """
    if len(block) < SAMPLED:
        return block.count(b"\n") * SHORT >= len(block)
    some = np.frombuffer(block, np.uint8)[secrets.randbelow(STRIDE) :: STRIDE]
    return int(np.count_nonzero(some == NEWLINE)) * SHORT >= len(some)


def _gaps(block: bytes) -> list[tuple[int, int]]:
    """Where long runs of white space begin and end."""
    if block.isspace():
        return [(0, len(block))]
    found: list[tuple[int, int]] = []
    for start in range(0, len(block), SPAN):
        some = np.frombuffer(block, np.uint8, min(SPAN, len(block) - start), start)
        held = np.flatnonzero(~SPACE[some]) + start
        begins, ends = np.concatenate([[start], held + 1]), np.concatenate([held, [start + len(some)]])
        long = np.flatnonzero(ends - begins >= RUN)
        found += zip(begins[long].tolist(), ends[long].tolist(), strict=True)
    return found
