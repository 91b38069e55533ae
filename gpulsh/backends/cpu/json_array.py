"""Where the elements of a JSON array end: at the commas and the bracket that no string and no inner value holds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.backends.cpu.kernel import kernel

QUOTE, BACKSLASH, COMMA = 34, 92, 44
OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE = 91, 93, 123, 125
VALUE, STRING, ESCAPE = range(3)  # what the bytes so far ended in; ESCAPE is behind a backslash


class State(NamedTuple):
    """What is known behind some bytes of an array, of which `depth` brackets and braces are open; 0: it has ended."""

    depth: int = 1
    within: int = VALUE


@kernel
def _element_ends(content, depth, within, ends):
    count = 0
    for at in range(content.size):
        byte = content[at]
        if within == STRING:
            if byte == QUOTE:
                within = VALUE
            elif byte == BACKSLASH:
                within = ESCAPE
        elif within == ESCAPE or byte == QUOTE:
            within = STRING
        elif byte in (OPEN_BRACKET, OPEN_BRACE):
            depth += 1
        elif byte in (CLOSE_BRACKET, CLOSE_BRACE):
            depth -= 1
            if depth == 0:
                ends[count] = at
                count += 1
                break
        elif byte == COMMA and depth == 1:
            ends[count] = at
            count += 1
    return count, depth, within


def element_ends(content: bytes, state: State) -> tuple[Numbers, State]:
    """int64 [elements]: the byte behind each element that ends there, and the state behind the last byte, or behind the
    array's end.

    >>> element_ends(b'{"a": [1, "]"]}, 2] ', State())
    (array([15, 18]), State(depth=0, within=0))
    """
    ends = np.empty(content.count(b",") + 1, np.int64)
    count, depth, within = _element_ends(np.frombuffer(content, np.uint8), *state, ends)
    return ends[:count], State(depth, within)
