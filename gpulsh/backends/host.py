"""CPU kernels for readers and writers, with every backend: records, strings, keyed hashes of values.

The kernels load Numba, so they are imported when they are needed.

Delimited values are separated by commas or tabs as RFC 4180 says, and otherwise as Python's `csv` and pyarrow do. A
field is quoted if its first byte is a quote. A quote elsewhere is content, and so is text after the closing one. A
carriage return ends a record, too. The kernels take a byte at a time, because no byte shows by itself whether it is
within quotes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Values, Words

# The state after some bytes: before a field, in a plain one, in quotes, after a quote that may close them, or after a
# carriage return that ended a record.
BEGIN, PLAIN, QUOTED, CLOSED, RETURNED = range(5)
VALUE, STRING, ESCAPE = range(3)  # the same for JSON; ESCAPE is after a backslash


class Cells(NamedTuple):
    """Some columns of n records, record by record: `values[offset[i] : offset[i + 1]]` without quotes."""

    values: NDArray[np.uint8]
    offset: Numbers  # int64 [n * columns + 1]
    null: NDArray[np.bool_]  # [n * columns] whether the field is empty, without quotes, or missing
    fields: Numbers  # int64 [n]: how many fields the record has


def record_ends(content: bytes, delimiter: int, state: int = BEGIN) -> tuple[Numbers, int]:
    """int64 [records]: where each record ends, after its line end, and the state after the last byte.

    `state` is the state after the bytes before, in which a record may have begun.

    >>> record_ends(b'1,"a' + bytes([10]) + b'b"' + bytes([10]) + b"2,", ord(","))
    (array([8]), 0)
    """
    from gpulsh.backends.cpu.records import find_records

    ends = np.empty(len(content) + 1, np.int64)
    count, state = find_records(np.frombuffer(content, np.uint8), delimiter, state, ends)
    return ends[:count], state


def line_ends(content: bytes | bytearray) -> int:
    """How many lines end there: by a newline, a carriage return, or both.

    Where lines are short, `bytes.count` takes several times as long, and holds Python's lock.

    >>> line_ends(b"a\\rb\\nc\\r\\nd")
    3
    """
    from gpulsh.backends.cpu.records import count_line_ends

    return int(count_line_ends(_bytes_of(content)))


def _bytes_of(content: bytes | bytearray) -> NDArray[np.uint8]:
    """The bytes, read-only, so that a kernel is compiled once."""
    return np.frombuffer(memoryview(content).toreadonly(), np.uint8)


def cells_of(
    content: bytes | bytearray, begin: Numbers, end: Numbers, delimiter: int, first: int, columns: int = 1
) -> Cells:
    """Columns from `first` on of the records `content[begin[i] : end[i]]`."""
    from gpulsh.backends.cpu.records import fill_columns

    cells = len(begin) * columns
    # A value is at most as long as its record.
    values, offset = np.empty(int((end - begin).sum()), np.uint8), np.zeros(cells + 1, np.int64)
    null, fields = np.empty(cells, np.bool_), np.empty(len(begin), np.int64)
    fill_columns(_bytes_of(content), begin, end, delimiter, first, columns, values, offset, null, fields)
    return Cells(values[: int(offset[-1])], offset, null, fields)


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

    values = np.frombuffer(content, np.uint8)
    ends = np.empty(np.count_nonzero(values == ord(",")) + 1, np.int64)
    count, depth, within = find_elements(values, *state, ends)
    return ends[:count], State(depth, within)


def utf8(strings: list[Any], ascii: NDArray[np.bool_], first: int, most: int, threads: int) -> TextBatch:
    """The UTF-8 of strings from `first` on: at most `most` bytes, or one string; none where that has no UTF-8.

    `strings` holds str alone; `ascii` bool [n] says which are of ASCII alone. No other thread changes the list.

    >>> ascii = np.array([True, False, False])
    >>> utf8(["a", "\\u00e9", "\\ud800"], ascii, 0, 1 << 20, threads=1).offset.tolist()
    [0, 1, 3]
    """
    from gpulsh.backends.cpu.texts import encode
    from gpulsh.backends.cpu.threads import Threads

    return encode(strings, ascii, first, most, Threads(threads))


def keyed_hashes(values: Values, offset: Numbers, key: Words) -> Words:
    """uint64 [n, 2]: the keyed hash of `values[offset[i] : offset[i + 1]]`, uint8; `key` is uint64 [2].

    Equal hashes are equal byte strings, though nobody can make two with one hash: SipHash-2-4 with 128 bits (Aumasson,
    Bernstein 2012), whose key is part of the secret of a run. Among 10^10 values a collision has a probability of
    10^-19. Rejected: BLAKE2 of Python's `hashlib`, a call and an object for each value, and xxHash, whose key does not
    keep an attacker from collisions.

    >>> key = np.array([0x0706050403020100, 0x0F0E0D0C0B0A0908])  # of the reference code's vectors
    >>> keyed_hashes(np.zeros(0, np.uint8), np.zeros(2, np.int64), key).tobytes().hex()
    'a3817f04ba25a8e66df67214c7550293'
    """
    from gpulsh.backends.cpu.hashes import hash_rows

    hashes = np.empty((len(offset) - 1, 2), np.uint64)
    hash_rows(values, offset, *key.astype(np.uint64), hashes)
    return hashes
