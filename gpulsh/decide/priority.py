"""The decision order by the `priority` of documents: arrays and lists of numbers or dates, in their own type."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Numbers, Values, on_host, whole_column
from gpulsh.checks import shown, shown_type
from gpulsh.errors import ParameterError


def decision_order(priority: object, count: int) -> Numbers:
    """Positions by priority, the highest first, ties by position. Integers and dates compare as such; NaT is last."""
    if isinstance(priority, np.ma.MaskedArray) and np.ma.is_masked(priority):
        place = int(np.argmax(np.ma.getmaskarray(priority)))
        raise ParameterError(f"priority is masked at position {place}; give a number for every document")
    priority = whole_column(priority)
    values = _numbers(priority)
    if values.dtype.kind == "O":
        values = _dates(priority, values)
    if values.dtype.kind == "M":
        values = values.view(np.int64)  # NaT has the least value
    if isinstance(priority, (str, bytes)) or values.dtype.kind in "OSTU":
        raise ParameterError(_not_numeric_message(priority))
    if values.dtype.kind not in "iuf" or values.shape != (count,):
        raise ParameterError(
            f"priority is an array of {values.dtype} with shape {values.shape};"
            f" give floats, integers or dates of shape ({count},), one for each document"
        )
    if values.dtype.kind == "f" and bool(np.isnan(values).any()):
        raise ParameterError(
            f"priority is NaN or null at position {int(np.argmax(np.isnan(values)))}; give a number for every document"
        )
    # Sorting the reversed values, then reversing, keeps equal values in order without negating any value.
    return (count - 1 - np.argsort(values[::-1], kind="stable"))[::-1].astype(np.int64)


def _dates(priority: object, values: Values) -> Values:
    """`values` as datetime64 where Arrow finds dates or times in `priority`, which NumPy leaves as objects."""
    import pyarrow as pa

    from gpulsh.io.arrow.validation import arrow_values

    try:
        found = arrow_values(priority)
    except (pa.ArrowException, TypeError, ValueError):
        return values
    is_date = pa.types.is_date(found.type) or pa.types.is_timestamp(found.type)
    return np.asarray(found.to_numpy(zero_copy_only=False)) if is_date else values


def _not_numeric_message(priority: object) -> str:
    """The message for a priority that holds other values."""
    rule = "give floats, integers or dates, one for each document, the higher kept first"
    if isinstance(priority, (str, bytes)) or not hasattr(priority, "__iter__") or np.ndim(_numbers(priority)) == 0:
        return f"priority is {shown_type(priority)}; {rule}"
    for place, value in enumerate(priority):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            return f"priority[{place}] is {shown(value)}; {rule}"
    return f"priority holds numbers of several kinds; {rule}"


def _numbers(priority: object) -> Values:
    """`priority` as an array; of a list's integers that no float holds, which NumPy would round, the ranks."""
    try:
        is_array = hasattr(priority, "dtype") and not isinstance(priority, type)
        values = on_host(priority) if is_array else np.asarray(priority)
    except (ValueError, NotImplementedError) as error:  # rows of unequal length, an Arrow type that NumPy lacks
        raise ParameterError(f"priority is not an array of numbers: {error}; give one for each document") from None
    if values.dtype.kind == "O" and not isinstance(priority, list) and values.ndim:
        return _numbers(values.tolist())
    if isinstance(priority, (list, tuple)) and values.dtype.kind in "fO":
        plain = [value.item() if isinstance(value, np.generic) else value for value in priority]
        numbers = all(type(value) in (int, float) and value == value for value in plain)
        if numbers and any(isinstance(value, int) and abs(value) > 1 << 53 for value in plain):
            return np.unique(np.array(plain, object), return_inverse=True)[1]
    return values
