"""Python's str as UTF-8, by functions of the C API's stable ABI: a loop in Python takes longer than to copy the text.

A str of ASCII alone holds its UTF-8 already. Any other is encoded to a bytes object, one at a time, and not by
`PyUnicode_AsUTF8AndSize`: that would leave the UTF-8 in the caller's strings for as long as they live. Bytes are copied
without Python's lock, by several threads where they are idle.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.texts import copy_rows
from gpulsh.backends.cpu.threads import Threads, by_weight

CHUNK_BYTES = 1 << 20  # that a thread copies at a time

_item = types.ExternalFunction("PyList_GetItem", types.intp(types.intp, types.intp))  # borrowed
_length = types.ExternalFunction("PyUnicode_GetLength", types.intp(types.intp))
_own_text = types.ExternalFunction("PyUnicode_AsUTF8AndSize", types.intp(types.intp, types.intp))
_encode = types.ExternalFunction("PyUnicode_AsUTF8String", types.intp(types.intp))  # a new object
_size = types.ExternalFunction("PyBytes_Size", types.intp(types.intp))
_text = types.ExternalFunction("PyBytes_AsString", types.intp(types.intp))
_release = types.ExternalFunction("Py_DecRef", types.void(types.intp))
_forget_error = types.ExternalFunction("PyErr_Clear", types.void())


@partial(kernel, nogil=False)
def _find(strings, ascii, first, most, begin, offset, held):
    """Where the UTF-8 of each str from `first` on begins, until there are more than `most` bytes, and at least one.

    `strings` is the address of a list. `held` gets the addresses of the objects made. Ends before a str without UTF-8.
    """
    count, made = 0, 0
    for place in range(first, ascii.size):
        string = _item(strings, place)
        if ascii[place]:
            size = _length(string)
        else:
            string = _encode(string)
            if string == 0:
                _forget_error()
                break
            size = _size(string)
            held[made] = string
            made += 1
        if count > 0 and offset[count] + size > most:
            if not ascii[place]:
                made -= 1
                _release(string)
            break
        begin[count] = _own_text(string, 0) if ascii[place] else _text(string)
        count += 1
        offset[count] = offset[count - 1] + size
    return count, made


@partial(kernel, nogil=False)
def _release_all(held):
    for place in range(held.size):
        _release(held[place])


def encode(strings: list[Any], ascii: NDArray[np.bool_], first: int, most: int, threads: Threads) -> TextBatch:
    """`gpulsh.backends.strings.utf8`."""
    rows = len(strings) - first
    begin, offset, held = np.empty(rows, np.int64), np.zeros(rows + 1, np.int64), np.empty(rows, np.int64)
    count, made = _find(id(strings), ascii, first, most, begin, offset, held)
    offset = offset[: count + 1]
    try:
        values = np.empty(int(offset[-1]), np.uint8)

        def copy(start: int, stop: int) -> None:
            copy_rows(0, begin[start:stop], values.ctypes.data, offset[start : stop + 1])

        threads.map(copy, by_weight(offset, CHUNK_BYTES))
    finally:
        _release_all(held[:made])
    values.flags.writeable = False  # as all texts are, which are of one type to the kernels
    return TextBatch(values, offset)
