"""Values separated by commas or tabs: where records end, and the values of a column.

As RFC 4180 has it, and where that is silent as Python's `csv` and pyarrow do: a field is quoted when its first byte is
a quote; a quote elsewhere is content, as is what stands behind the closing one; a carriage return ends a record, too.
A byte at a time, because no byte tells by itself whether it lies within quotes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.cpu.kernel import kernel

NEWLINE, RETURN, QUOTE = 10, 13, 34

# What the bytes so far ended in: before a field, within a plain one, within quotes, behind a quote that may be the
# closing one, or behind a carriage return that ended a record.
BEGIN, PLAIN, QUOTED, CLOSED, RETURNED = range(5)


class Column(NamedTuple):
    """A column of records: `values[offset[i] : offset[i + 1]]` without quotes."""

    values: NDArray[np.uint8]
    offset: Numbers  # int64 [n + 1]
    null: NDArray[np.bool_]  # [n] whether nothing stands there, not even quotes
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
    """int64 [records]: where each record ends, its line end included, and the state behind the last byte.

    `state` is that behind the bytes before, with which a record may have begun.

    >>> record_ends(b'1,"a' + bytes([10]) + b'b"' + bytes([10]) + b"2,", ord(","))
    (array([8]), 0)
    """
    ends = np.empty(content.count(b"\n") + content.count(b"\r") + 1, np.int64)
    count, state = _record_ends(np.frombuffer(content, np.uint8), delimiter, state, ends)
    return ends[:count], state


def column(content: bytes | bytearray, begin: Numbers, end: Numbers, delimiter: int, place: int) -> Column:
    """Column `place` of the records `content[begin[i] : end[i]]`."""
    count = len(begin)
    # A value is never longer than what it is made of.
    values, offset = np.empty(int((end - begin).sum()), np.uint8), np.zeros(count + 1, np.int64)
    null, fields = np.empty(count, np.bool_), np.empty(count, np.int64)
    read_only = np.frombuffer(memoryview(content).toreadonly(), np.uint8)
    _column(read_only, begin, end, delimiter, place, values, offset, null, fields)
    return Column(values[: int(offset[-1])], offset, null, fields)
