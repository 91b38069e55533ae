"""Columns that say what was decided about each row of a table: kept or not, for which row, and the counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpulsh.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

LIBRARIES = ("pyarrow", "pandas", "polars")


def with_columns(table: Any, columns: Mapping[str, pa.Array]) -> Any:
    """A table of pyarrow, pandas or polars with more columns. Raises ParameterError where it has one of them."""
    import pyarrow as pa

    home, kind = type(table).__module__.partition(".")[0], type(table).__name__
    if home not in LIBRARIES or kind not in ("Table", "RecordBatch", "DataFrame"):
        raise ParameterError(f"table is of type {kind}; give a Table of pyarrow, or a DataFrame of pandas or polars")
    present = list(table.schema.names if home == "pyarrow" else table.columns)
    for name in columns:
        if name in present:
            raise ParameterError(f"table has a column {name!r}, which would be added; rename it")
    added = pa.table(dict(columns))
    if home == "pyarrow":
        whole = table if kind == "Table" else pa.Table.from_batches([table])
        for name, column in columns.items():
            whole = whole.append_column(name, column)
        return whole
    if home == "polars":
        import polars

        return table.hstack(polars.from_arrow(added))
    import pandas

    whole_numbers = {pa.int64(): pandas.Int64Dtype()}  # which has nulls
    frame = added.to_pandas(types_mapper=whole_numbers.get)
    return pandas.concat([table, frame.set_axis(table.index, axis=0)], axis=1)
