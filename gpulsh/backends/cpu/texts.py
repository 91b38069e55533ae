"""Bytes of texts: gather, and Python's str and byte strings as texts.

gather copies memory, without a Python object per text. Kernels read Python's strings by functions of the C API's stable
ABI: a loop in Python takes longer than to copy or hash the text. A str of ASCII alone has its UTF-8 already. Any other
is encoded to a bytes object, one at a time, and not by `PyUnicode_AsUTF8AndSize`, which would leave the UTF-8 in the
caller's strings for as long as they live. Bytes of str are copied without Python's lock, by several threads if some are
idle.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.cpu.threads import Threads
from gpulsh.backends.cpu.vectors import copy
from gpulsh.errors import InputTypeError, ParameterError
from gpulsh.ragged import offsets, row_ranges

CHUNK_BYTES = 1 << 20  # of str; a thread copies so many at a time
TOKEN_BYTES = 64  # room a token at first; sets of longer tokens are copied twice

# Of the C API's stable ABI.
_list_size = types.ExternalFunction("PyList_Size", types.intp(types.intp))
_item = types.ExternalFunction("PyList_GetItem", types.intp(types.intp, types.intp))  # borrowed
_length = types.ExternalFunction("PyUnicode_GetLength", types.intp(types.intp))
_own_text = types.ExternalFunction("PyUnicode_AsUTF8AndSize", types.intp(types.intp, types.intp))
_encode = types.ExternalFunction("PyUnicode_AsUTF8String", types.intp(types.intp))  # a new object
_size = types.ExternalFunction("PyBytes_Size", types.intp(types.intp))
_text = types.ExternalFunction("PyBytes_AsString", types.intp(types.intp))  # 0 of an object of another type
_release = types.ExternalFunction("Py_DecRef", types.void(types.intp))
_forget_error = types.ExternalFunction("PyErr_Clear", types.void())


@kernel
def _copy_rows(source, begin, target, offset):
    """Copies the bytes from address `source + begin[i]` on to `target + offset[i]`, up to `offset[i + 1]`."""
    for row in range(begin.size):
        copy(source + begin[row], target + offset[row], offset[row + 1] - offset[row])


def gather(values: NDArray[np.uint8], begin: Numbers, end: Numbers) -> TextBatch:
    values, begin, offset = np.ascontiguousarray(values), np.ascontiguousarray(begin), offsets(end - begin)
    if len(begin) and (int(begin.min()) < 0 or int(end.max()) > len(values) or bool((begin > end).any())):
        raise ParameterError(f"texts begin or end outside [0, {len(values)}]; give offsets of bytes within it")
    copied = np.empty(int(offset[-1]), np.uint8)
    _copy_rows(values.ctypes.data, begin, copied.ctypes.data, offset)
    copied.flags.writeable = False  # like all texts: kernels are compiled for one type
    return TextBatch(copied, offset)


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
    """`gpulsh.backends.host.utf8`."""
    rows = len(strings) - first
    begin, offset, held = np.empty(rows, np.int64), np.zeros(rows + 1, np.int64), np.empty(rows, np.int64)
    count, made = _find(id(strings), ascii, first, most, begin, offset, held)
    offset = offset[: count + 1]
    try:
        values = np.empty(int(offset[-1]), np.uint8)

        def work(start: int, stop: int) -> None:
            _copy_rows(0, begin[start:stop], values.ctypes.data, offset[start : stop + 1])

        threads.map(work, row_ranges(offset, CHUNK_BYTES))
    finally:
        _release_all(held[:made])
    values.flags.writeable = False  # like all texts: kernels are compiled for one type
    return TextBatch(values, offset)


@partial(kernel, nogil=False)
def _copy_tokens(sets, values, offset, begins):
    """The bytes of all tokens, copied into `values` as far as it has room. `sets` is the address of a list of lists.

    -1 if a token is not of `bytes`, or another thread has changed their number.
    """
    token, filled = 0, 0
    for number in range(begins.size - 1):
        one = _item(sets, number)
        count = _list_size(one)
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


def token_texts(sets: list[list[Any]]) -> tuple[TextBatch, Numbers]:
    """The bytes of every token, and where each of the `sets` begins: int64 [sets + 1].

    A token is of `bytes`, or of a type with their buffer. Raises InputTypeError for others.

    >>> texts, begins = token_texts([[b"a", bytearray(b"bc")], []])
    >>> texts.values.tobytes(), texts.offset.tolist(), begins.tolist()
    (b'abc', [0, 1, 3], [0, 2, 2])
    """
    tokens = sum(map(len, sets))
    values, offset = np.empty(TOKEN_BYTES * tokens, np.uint8), np.zeros(tokens + 1, np.int64)
    begins = np.zeros(len(sets) + 1, np.int64)
    while (size := _copy_tokens(id(sets), values, offset, begins)) > len(values):
        values = np.empty(size, np.uint8)
    if size < 0:
        return token_texts([[_as_bytes(token) for token in tokens] for tokens in sets])
    return TextBatch(values[:size], offset), begins


def _as_bytes(token: Any) -> bytes:
    try:
        return bytes(memoryview(token))
    except TypeError:
        raise InputTypeError(f"tokens hold a {type(token).__name__}; give bytes") from None
