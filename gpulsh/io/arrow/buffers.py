"""Between NumPy and Arrow by their buffers.

pyarrow's own conversions import pandas where it is installed, which the work does not need.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Values


def to_arrow(values: Values) -> pa.Array:
    """An integer, float or boolean array as a pyarrow.Array; numbers are not copied."""
    if values.dtype == np.bool_:
        kind, content = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, content = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(content)])


def strings(texts: Sequence[str]) -> pa.StringArray:
    """A pyarrow.Array of type string; what is no UTF-8 in a file's name becomes U+FFFD."""
    pieces = [text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode() for text in texts]
    offset = np.zeros(len(pieces) + 1, np.int32)
    np.cumsum([len(piece) for piece in pieces], out=offset[1:])
    return pa.Array.from_buffers(pa.string(), len(pieces), [None, pa.py_buffer(offset), pa.py_buffer(b"".join(pieces))])


def numbers(array: pa.Array) -> Values:
    """The values of an integer or float pyarrow.Array, as a view; what stands where it is null is arbitrary."""
    kind = array.type
    letter = "f" if pa.types.is_floating(kind) else "i" if pa.types.is_signed_integer(kind) else "u"
    dtype = np.dtype(f"{letter}{kind.bit_width // 8}")
    content = array.buffers()[1]
    if content is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(content, dtype, len(array), array.offset * dtype.itemsize)


def booleans(array: pa.Array) -> NDArray[np.bool_]:
    """The values of a boolean pyarrow.Array."""
    content = array.buffers()[1]
    return _bits(content, array) if content else np.zeros(len(array), np.bool_)


def null_mask(array: pa.Array) -> NDArray[np.bool_] | None:
    """bool [n], true where the array's own validity says null; None where that is nowhere."""
    if array.null_count == 0:
        return None
    content = array.buffers()[0]
    if content is None:  # the type null, which has no buffers
        return np.ones(len(array), np.bool_)
    return ~_bits(content, array)


def _bits(content: pa.Buffer, array: pa.Array) -> NDArray[np.bool_]:
    """bool [n]: a buffer of `array` that holds a bit a value, lowest first."""
    first, last = array.offset // 8, (array.offset + len(array) + 7) // 8
    bits = np.unpackbits(np.frombuffer(content, np.uint8)[first:last], bitorder="little")
    return np.asarray(bits[array.offset % 8 :][: len(array)] == 1)
