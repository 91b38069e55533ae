"""Where records end: delimited values, and the elements of a JSON array; and the values of a delimited column.

Values are separated by commas or tabs as RFC 4180 says, and otherwise as Python's `csv` and pyarrow do. A field is
quoted if its first byte is a quote. A quote elsewhere is content, and so is text after the closing one. A carriage
return ends a record, too. The kernels of `gpulsh.backends.cpu.records` take a byte at a time, because no byte shows by
itself whether it is within quotes. They load Numba, so they are imported when they are needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers

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


def record_ends(content: bytes, delimiter: int, state: int = BEGIN) -> tuple[Numbers, int]:
    """int64 [records]: where each record ends, after its line end, and the state after the last byte.

    `state` is the state after the bytes before, in which a record may have begun.

    >>> record_ends(b'1,"a' + bytes([10]) + b'b"' + bytes([10]) + b"2,", ord(","))
    (array([8]), 0)
    """
    from gpulsh.backends.cpu.records import find_records

    ends = np.empty(content.count(b"\n") + content.count(b"\r") + 1, np.int64)
    count, state = find_records(np.frombuffer(content, np.uint8), delimiter, state, ends)
    return ends[:count], state


def column_of(content: bytes | bytearray, begin: Numbers, end: Numbers, delimiter: int, place: int) -> Column:
    """Column `place` of the records `content[begin[i] : end[i]]`."""
    from gpulsh.backends.cpu.records import fill_column

    count = len(begin)
    # A value is at most as long as its record.
    values, offset = np.empty(int((end - begin).sum()), np.uint8), np.zeros(count + 1, np.int64)
    null, fields = np.empty(count, np.bool_), np.empty(count, np.int64)
    read_only = np.frombuffer(memoryview(content).toreadonly(), np.uint8)
    fill_column(read_only, begin, end, delimiter, place, values, offset, null, fields)
    return Column(values[: int(offset[-1])], offset, null, fields)


class State(NamedTuple):
    """The state after some bytes of an array: `depth` open brackets and braces, 0 after its end."""

    depth: int = 1
    within: int = VALUE


def element_ends(content: bytes, state: State) -> tuple[Numbers, State]:
    """int64 [elements]: the byte after each element that ends, and the state after the last byte or the array's end.

    >>> element_ends(b'{"a": [1, "]"]}, 2] ', State())
    (array([15, 18]), State(depth=0, within=0))
    """
    from gpulsh.backends.cpu.records import find_elements

    ends = np.empty(content.count(b",") + 1, np.int64)
    count, depth, within = find_elements(np.frombuffer(content, np.uint8), *state, ends)
    return ends[:count], State(depth, within)
