"""Values of `key=` in memory: a column or list, as the bytes that are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gpulsh.arrays import on_host
from gpulsh.errors import ParameterError
from gpulsh.io.arrow.identities import TAKES, identities, is_identity, of_python
from gpulsh.io.arrow.soundness import check_given
from gpulsh.params import shown, shown_type


def given_identities(key: Any, count: int) -> pa.Array:
    """`key` as a pyarrow.LargeBinaryArray [count]; ParameterError for another length or type, naming the position."""
    if isinstance(key, (str, bytes)) or not hasattr(key, "__len__") or getattr(key, "shape", None) == ():
        raise ParameterError(f"key is {shown_type(key)}; give a column or a list, one value for each document")
    if len(key) != count:
        raise ParameterError(f"key has {len(key)} values, and there are {count} documents; give one for each")
    if hasattr(key, "to_arrow"):  # polars, cuDF
        key = key.to_arrow()
    elif hasattr(key, "dtype") and not isinstance(key, np.ndarray) and not hasattr(key, "iloc"):
        key = on_host(key)
    if isinstance(key, pa.ChunkedArray):
        check_given(key, "key")
        key = key.combine_chunks() if key.num_chunks != 1 else key.chunk(0)
    elif isinstance(key, pa.Array):
        check_given(key, "key")
    else:
        try:
            key = pa.array(key, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return _each(key)
    if not is_identity(key.type):
        raise ParameterError(f"key is a column of {key.type}; give {TAKES}")
    found: pa.Array = identities(key)
    return found


def _each(key: Any) -> pa.Array:
    """Values of several types, integers beyond 64 bits, or strings that UTF-8 does not hold."""
    found: list[str | int | None] = []
    for place, value in enumerate(key):
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or value != value:  # NaN
            found.append(None)
        elif isinstance(value, bool) or not isinstance(value, (str, int, bytes)):
            raise ParameterError(f"key[{place}] is {shown(value)}; give {TAKES}")
        else:
            found.append(value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value)
    return of_python(found)
