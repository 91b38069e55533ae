"""Sets of byte strings as texts: a kernel reads Python's objects with functions of the C API's stable ABI.

A loop in Python would take longer to hand the tokens over than to hash them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import types

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.vectors import copy
from gpulsh.errors import InputTypeError

TOKEN_BYTES = 64  # room a token at first; sets of longer tokens are copied twice

_length = types.ExternalFunction("PyList_Size", types.intp(types.intp))
_item = types.ExternalFunction("PyList_GetItem", types.intp(types.intp, types.intp))
_size = types.ExternalFunction("PyBytes_Size", types.intp(types.intp))
_text = types.ExternalFunction("PyBytes_AsString", types.intp(types.intp))  # 0 of an object of another type
_forget_error = types.ExternalFunction("PyErr_Clear", types.void())


@partial(kernel, nogil=False)
def _taken(sets, values, offset, begins):
    """The bytes of all tokens, copied into `values` as far as it has room. `sets` is the address of a list of lists.

    -1 if a token is not of `bytes`, or another thread has changed their number.
    """
    token, filled = 0, 0
    for number in range(begins.size - 1):
        one = _item(sets, number)
        count = _length(one)
        if token + count >= offset.size:
            return -1
        for place in range(count):
            held = _item(one, place)
            text = _text(held)
            if text == 0:
                _forget_error()
                return -1
            size = _size(held)
            if filled + size <= values.size:
                copy(text, values.ctypes.data + filled, size)
            filled += size
            token += 1
            offset[token] = filled
        begins[number + 1] = token
    return filled if token == offset.size - 1 else -1


def texts_of(sets: list[list[Any]]) -> tuple[TextBatch, Numbers]:
    """The bytes of every token, and where each of the `sets` begins: int64 [sets + 1].

    A token is of `bytes`, or of a type with their buffer. Raises InputTypeError for others.

    >>> texts, begins = texts_of([[b"a", bytearray(b"bc")], []])
    >>> texts.values.tobytes(), texts.offset.tolist(), begins.tolist()
    (b'abc', [0, 1, 3], [0, 2, 2])
    """
    tokens = sum(map(len, sets))
    values, offset = np.empty(TOKEN_BYTES * tokens, np.uint8), np.zeros(tokens + 1, np.int64)
    begins = np.zeros(len(sets) + 1, np.int64)
    while (size := _taken(id(sets), values, offset, begins)) > len(values):
        values = np.empty(size, np.uint8)
    if size < 0:
        return texts_of([[_bytes(token) for token in tokens] for tokens in sets])
    return TextBatch(values[:size], offset), begins


def _bytes(token: Any) -> bytes:
    try:
        return bytes(memoryview(token))
    except TypeError:
        raise InputTypeError(f"tokens hold a {type(token).__name__}; give bytes") from None
