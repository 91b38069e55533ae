"""Sets of byte strings as `marshal` writes them, a list of lists, taken apart.

Nothing else hands so many of Python's objects over in so little time. A letter tells what follows: a list and how many
it has, or a string of bytes and its length.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, TextBatch
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.lowered import lowered
from gpulsh.backends.cpu.sha1 import BLOCK_SIZE, ROOM, heads_of
from gpulsh.backends.cpu.vectors import I8, I32, I64, byte, load, store

VERSION = 2  # from 3 on an object that comes again is written as a number
HEAD = 5  # bytes: a letter, and 32 bits
COPIED = 64  # bytes at once

_LIST, _STRING = b"[s"
_piece = ir.VectorType(I8, COPIED)


@lowered(types.int64(types.int64))
def _size(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """What stands behind the letter at an address."""
    return builder.zext(load(builder, builder.add(address, ir.Constant(I64, 1)), I32), I64)


@lowered(types.void(types.int64, types.int64))
def _copy(builder: ir.IRBuilder, source: ir.Value, target: ir.Value) -> None:
    """Copy COPIED bytes from an address to another."""
    store(builder, load(builder, source, _piece), target)


@kernel
def _taken_apart(content, values, offset, begins):
    """Whether there are as many sets and byte strings, and nothing else; `values` is as long as `content`."""
    at, end, filled, token = content.ctypes.data + HEAD, content.ctypes.data + content.size, 0, 0
    for number in range(begins.size - 1):
        stop = token + _size(at)
        if byte(at) != _LIST or stop >= offset.size:
            return False
        at += HEAD
        while token < stop:
            if byte(at) != _STRING:
                return False
            size = _size(at)
            at += HEAD
            if at + size + COPIED <= end:
                for start in range(0, size, COPIED):
                    _copy(at + start, values.ctypes.data + filled + start)
            else:
                for i in range(size):
                    values[filled + i] = byte(at + i)
            at += size
            filled += size
            token += 1
            offset[token] = filled
        begins[number + 1] = token
    return token == offset.size - 1


@kernel
def _sha1(content, values, offset, begins, edge, room, heads):
    found = _taken_apart(content, values, offset, begins)
    if found:
        heads_of(values, offset, edge, room, heads)
    return found


def taken_apart(content: bytes, sets: int, tokens: int) -> tuple[TextBatch, Numbers] | None:
    """All byte strings, `tokens` in number, as texts, and where each of the `sets` begins: int64 [sets + 1].

    None where one holds anything else.

    >>> import marshal
    >>> texts, begins = taken_apart(marshal.dumps([[b"a", b"bc"], []], VERSION), 2, 2)
    >>> texts.values.tobytes(), texts.offset.tolist(), begins.tolist()
    (b'abc', [0, 1, 3], [0, 2, 2])
    """
    values, offset, begins = _rows(content, sets, tokens)
    if not _taken_apart(np.frombuffer(content, np.uint8), values, offset, begins):
        return None
    return TextBatch(values[: int(offset[-1])], offset), begins


def sha1_of_sets(content: bytes, sets: int, tokens: int) -> Fingerprints | None:
    """`sha1` of each byte string that `taken_apart` gives, a row a set.

    At once, on the caller's thread: between the two it would wait for another one that has the GIL, to marshal.

    >>> import marshal
    >>> sha1_of_sets(marshal.dumps([[b"hello world"]], VERSION), 1, 1).values & np.uint64(2**32 - 1)
    array([896314922], dtype=uint64)
    """
    values, offset, begins = _rows(content, sets, tokens)
    edge, room, heads = np.empty(2 * BLOCK_SIZE, np.uint8), np.empty(ROOM, np.uint32), np.empty(tokens, np.uint64)
    if not _sha1(np.frombuffer(content, np.uint8), values, offset, begins, edge, room, heads):
        return None
    return Fingerprints(heads, begins)


def _rows(content: bytes, sets: int, tokens: int) -> tuple[NDArray[np.uint8], Numbers, Numbers]:
    """Room for the bytes, with a block to spare, for where tokens end and for where sets do."""
    return np.empty(len(content) + BLOCK_SIZE, np.uint8), np.zeros(tokens + 1, np.int64), np.zeros(sets + 1, np.int64)
