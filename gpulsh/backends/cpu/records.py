"""Where records end: delimited values, and the elements of a JSON array; and the values of a delimited column.

Values are separated by commas or tabs as RFC 4180 says, and otherwise as Python's `csv` and pyarrow do. A field is
quoted if its first byte is a quote. A quote elsewhere is content, and so is text after the closing one. A carriage
return ends a record, too. The kernels take a byte at a time, because no byte shows by itself whether it is within
quotes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.cpu.kernel import kernel

NEWLINE, RETURN, QUOTE, BACKSLASH, COMMA = 10, 13, 34, 92, 44
OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE = 91, 93, 123, 125

# The state after some bytes: before a field, in a plain one, in quotes, after a quote that may close them, or after a
# carriage return that ended a record.
BEGIN, PLAIN, QUOTED, CLOSED, RETURNED = range(5)
VALUE, STRING, ESCAPE = range(3)  # the same for JSON; ESCAPE is after a backslash


class Column(NamedTuple):
    """A column of records: `values[offset[i] : offset[i + 1]]` without quotes."""

    values: NDArray[np.uint8]
    offset: Numbers  # int64 [n + 1]
    null: NDArray[np.bool_]  # [n] whether the field is empty, without quotes
    fields: Numbers  # int64 [n]: how many fields the record has


@kernel
def _record_ends(content, delimiter, state, ends):
    count = 0
    for at in range(content.size):
        byte = content[at]
        if state == RETURNED:
            state = BEGIN
            if byte == NEWLINE:
                ends[count] = at + 1
                count += 1
                continue
            ends[count] = at
            count += 1
        if state == QUOTED:
            if byte == QUOTE:
                state = CLOSED
        elif byte == QUOTE and state in (BEGIN, CLOSED):
            state = QUOTED
        elif byte == NEWLINE:
            ends[count] = at + 1
            count += 1
            state = BEGIN
        elif byte == RETURN:
            state = RETURNED
        else:
            state = BEGIN if byte == delimiter else PLAIN
    return count, state


@kernel
def _column(content, begin, end, delimiter, place, values, offset, null, fields):
    filled = 0
    for row in range(begin.size):
        at, stop = begin[row], end[row]
        if stop > at and content[stop - 1] == NEWLINE:
            stop -= 1
        if stop > at and content[stop - 1] == RETURN:
            stop -= 1
        field, state, quoted = 0, BEGIN, False
        while at < stop:
            byte = content[at]
            at += 1
            if state == QUOTED:
                if byte == QUOTE:
                    if at == stop or content[at] != QUOTE:
                        state = PLAIN
                        continue
                    at += 1
            elif byte == delimiter:
                field += 1
                state = BEGIN
                continue
            elif state == BEGIN and byte == QUOTE:
                state = QUOTED
                if field == place:
                    quoted = True
                continue
            else:
                state = PLAIN
            if field == place:
                values[filled] = byte
                filled += 1
        null[row] = filled == offset[row] and not quoted
        offset[row + 1] = filled
        fields[row] = field + 1


def record_ends(content: bytes, delimiter: int, state: int = BEGIN) -> tuple[Numbers, int]:
    """int64 [records]: where each record ends, after its line end, and the state after the last byte.

    `state` is the state after the bytes before, in which a record may have begun.

    >>> record_ends(b'1,"a' + bytes([10]) + b'b"' + bytes([10]) + b"2,", ord(","))
    (array([8]), 0)
    """
    ends = np.empty(content.count(b"\n") + content.count(b"\r") + 1, np.int64)
    count, state = _record_ends(np.frombuffer(content, np.uint8), delimiter, state, ends)
    return ends[:count], state


def column(content: bytes | bytearray, begin: Numbers, end: Numbers, delimiter: int, place: int) -> Column:
    """Column `place` of the records `content[begin[i] : end[i]]`."""
    count = len(begin)
    # A value is at most as long as its record.
    values, offset = np.empty(int((end - begin).sum()), np.uint8), np.zeros(count + 1, np.int64)
    null, fields = np.empty(count, np.bool_), np.empty(count, np.int64)
    read_only = np.frombuffer(memoryview(content).toreadonly(), np.uint8)
    _column(read_only, begin, end, delimiter, place, values, offset, null, fields)
    return Column(values[: int(offset[-1])], offset, null, fields)


class State(NamedTuple):
    """The state after some bytes of an array: `depth` open brackets and braces, 0 after its end."""

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
    """int64 [elements]: the byte after each element that ends, and the state after the last byte or the array's end.

    >>> element_ends(b'{"a": [1, "]"]}, 2] ', State())
    (array([15, 18]), State(depth=0, within=0))
    """
    ends = np.empty(content.count(b",") + 1, np.int64)
    count, depth, within = _element_ends(np.frombuffer(content, np.uint8), *state, ends)
    return ends[:count], State(depth, within)
