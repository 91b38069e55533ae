"""A column that a caller of Python gives beside the documents, such as their ids, sources, dates or hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gpulsh.arrays import on_host
from gpulsh.errors import ParameterError
from gpulsh.io.arrow.buffers import as_one_array
from gpulsh.io.arrow.soundness import check_given
from gpulsh.io.file import first_line
from gpulsh.params import shown_type

UNITS = {unit: f"datetime64[{other}]" for units, other in (("YMW", "D"), ("hm", "s")) for unit in units}


def given_column(name: str, values: Any, count: int) -> pa.Array:
    """`values`, `count` of them, as one sound pyarrow.Array of its own type.

    `values` is a list, or a column of NumPy, pyarrow, pandas, polars, cuDF or CuPy. Raises ParameterError with `name`
    for another length, for anything else and for values of several kinds; DamagedInputError for an unsound array.
    """
    try:
        column = _column(values)
    except (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = first_line(error)
        raise ParameterError(f"{name} is {shown_type(values)}, not a column of one kind of value: {reason}") from error
    if column is None:
        raise ParameterError(f"{name} is {shown_type(values)}; give a column or a list, one value for each document")
    check_given(column, name)
    if len(column) != count:
        raise ParameterError(f"{name} has {len(column)} values for {count} documents; give one for each document")
    return as_one_array(column)


def in_host_memory(values: Any) -> Any:
    """A column of polars or cuDF in Arrow, and one of CuPy or PyTorch in NumPy; any other as it is.

    Columns know their types better than their values do. Of Python's objects in polars, a list: their Arrow array holds
    addresses.
    """
    if hasattr(values, "to_arrow"):
        return values.to_list() if str(values.dtype) == "Object" else values.to_arrow()
    if hasattr(values, "dtype") and not isinstance(values, np.ndarray) and not hasattr(values, "iloc"):
        return on_host(values)
    return values


def _column(values: Any) -> pa.Array | pa.ChunkedArray | None:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    is_table = getattr(values, "ndim", 1) != 1 or isinstance(values, (pa.Table, pa.RecordBatch, dict))
    if isinstance(values, (str, bytes)) or is_table or not hasattr(values, "__iter__"):
        return None
    values = in_host_memory(values)
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":  # Arrow has no weeks, months or hours
        values = values.astype(UNITS.get(np.datetime_data(values.dtype)[0], values.dtype))
    return pa.array(values, from_pandas=True)
