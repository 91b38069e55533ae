"""Values of a key column, by which documents are copies: the bytes that are compared, or null.

An integer is its decimal digits, so that 7 in Parquet, 7 in JSON and 7 in CSV are equal. An empty value counts as null:
it says that a key is missing, and thousands of documents may have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.arrays import Numbers, Values
from gpulsh.checks import shown
from gpulsh.errors import BackendError, ParameterError, install_command
from gpulsh.io.arrow.buffers import binary_array, large_type, plain_values
from gpulsh.io.arrow.rows import has_views, is_coded, is_text
from gpulsh.io.arrow.validation import checked_column, checked_values, in_host_memory
from gpulsh.ragged import offsets

BYTES = pa.large_binary()
KINDS = "text, bytes or integers"


def is_copy_key(kind: pa.DataType) -> bool:
    """Whether documents can be compared by values of an Arrow type.

    >>> is_copy_key(pa.int32()), is_copy_key(pa.binary(16)), is_copy_key(pa.float64())
    (True, True, False)
    """
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return is_copy_key(kind.storage_type)
    if is_coded(kind):
        return is_copy_key(kind.value_type)
    return bool(is_text(kind) or types.is_integer(kind) or types.is_fixed_size_binary(kind))


def copy_keys(values: pa.Array) -> pa.Array:
    """Values of a type that `is_copy_key`, as a pyarrow.LargeBinaryArray whose empty values are null."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return copy_keys(values.storage)
    if is_coded(kind):
        return copy_keys(plain_values(values))
    if pa.types.is_integer(kind):
        values = values.cast(pa.string())
    elif has_views(kind):
        values = values.cast(large_type(kind))
    found = values.cast(BYTES)
    empty = pc.equal(pc.binary_length(found), 0)
    return pc.if_else(empty, pa.scalar(None, BYTES), found) if pc.any(empty).as_py() else found


def python_copy_keys(values: Sequence[str | int | bytes | None]) -> pa.Array:
    """`copy_keys` of Python values. A lone surrogate keeps its own three bytes: other values must not equal it."""
    found = [
        value if isinstance(value, bytes) else b"" if value is None else str(value).encode("utf-8", "surrogatepass")
        for value in values
    ]
    lengths = np.array(list(map(len, found)), np.int64)
    return binary_array(b"".join(found), offsets(lengths), lengths == 0)


def checked_copy_keys(key: Any, count: int) -> pa.Array:
    """`key` as a pyarrow.LargeBinaryArray [count]; ParameterError for another length or type, naming the position."""
    values = checked_values("key", key, count)
    try:
        column = checked_column("key", values, count)
    except ParameterError:  # they are of several types
        return _mixed_copy_keys(in_host_memory(values))
    if column.null_count == len(column):  # pandas gives a column without values the type float64
        return pa.nulls(len(column), BYTES)
    if not is_copy_key(column.type):
        raise ParameterError(f"key is a column of {column.type}; give {KINDS}")
    return copy_keys(column)


def _mixed_copy_keys(key: Any) -> pa.Array:
    """Values of several types, integers beyond 64 bits, or strings that UTF-8 does not hold."""
    found: list[str | int | bytes | None] = []
    for place, value in enumerate(key):
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value).__name__ == "NAType" or value != value:  # NA of pandas, NaN
            found.append(None)
        elif isinstance(value, bool) or not isinstance(value, (str, int, bytes)):
            raise ParameterError(f"key[{place}] is {shown(value)}; give {KINDS}")
        else:
            try:
                found.append(str(value) if isinstance(value, int) else value)
            except ValueError:  # more digits than Python writes
                raise ParameterError(f"key[{place}] is {shown(value)}; give integers of at most 4,300 digits") from None
    return python_copy_keys(found)


def bytes_and_offsets(found: pa.Array) -> tuple[Values, Numbers]:
    """uint8 [bytes], int64 [n + 1]: the bytes and offsets of a pyarrow.LargeBinaryArray; a null may have some."""
    _, offset, data = found.buffers()
    starts = np.frombuffer(offset, np.int64)[found.offset :][: len(found) + 1] if len(found) else np.zeros(1, np.int64)
    return np.frombuffer(data or b"", np.uint8), starts


def normalized_urls(found: pa.Array) -> pa.Array:
    """URLs in the canonical form of w3lib, as Scrapy compares them. URLs that it cannot parse stay unchanged.

    >>> normalized_urls(pa.array([b"HTTP://Example.com/b/../a?y=1&x=2#top"], BYTES))[0].as_py()
    b'http://example.com/a?x=2&y=1'
    """
    from w3lib.url import canonicalize_url

    def normalized(url: bytes) -> bytes:
        try:
            return str(canonicalize_url(url.decode())).encode()
        except ValueError:  # no UTF-8, a port beyond 65535, a bracket that does not close
            return url

    return pa.array([None if url is None else normalized(url) for url in found.to_pylist()], BYTES)


def require_extra() -> None:
    """BackendError if the library of `normalized_urls` is missing."""
    try:
        import w3lib.url  # noqa: F401
    except ImportError as error:
        raise BackendError(f"normalize_url needs w3lib ({error}); {install_command('url')}") from error
