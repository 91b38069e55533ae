"""The text of tables: of pyarrow, pandas, polars, cuDF and `datasets`, which are loaded, and of Arrow streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpulsh.errors import InputTypeError, nearest_name

if TYPE_CHECKING:
    import pyarrow as pa

    from gpulsh.io.columns import Columns

ROWS = 4096  # of a stream, read at once
READERS = ("RecordBatchReader", "RecordBatchStreamReader")
TABLES = {
    "pyarrow": ("Table", "RecordBatch", *READERS),
    "pandas": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "cudf": ("DataFrame",),
    "datasets": ("Dataset", "IterableDataset"),
}


def has_columns(given: object) -> bool:
    """Whether it is a table, also one that is computed or read later."""
    kind = type(given)
    return kind.__name__ in TABLES.get(kind.__module__.partition(".")[0], ())


def refuse_tables(texts: object) -> None:
    """InputTypeError if it is a table, or several, and not the texts of one."""
    kind = type(texts).__name__
    if kind.endswith("DatasetDict"):
        raise InputTypeError(f"texts is a {kind}; give one of its splits, such as texts['train']")
    if has_columns(texts):
        raise InputTypeError(
            f"texts is a {kind}; give one of its columns; gpulsh.deduplicate also takes a table with text_column='text'"
        )


def collect_columns(table: Any, text_column: object, *others: object) -> Any:
    """A LazyFrame, collected once, because its rows may have another order each time; any other table as it is.

    It has the columns that `text_column` names, and each of the `others` that is a name and no column itself.
    """
    from gpulsh.io.columns import Columns, text_named

    if type(table).__name__ != "LazyFrame":
        return table
    given = [text_column, *(name for name in others if isinstance(name, str))]
    names = list(dict.fromkeys(name for one in given for name, *_ in Columns(text_named(one)).texts))
    return table.select(names).collect() if set(names).issubset(_names(table)) else table


def table_texts(table: Any, text_column: object, parameter: str = "text_column") -> object:
    """The texts of a table that `text_column` names as `deduplicate_files` takes it; all of a table with columns.

    `parameter` is its name in messages. A LazyFrame is collected, and a Dataset or a reader of Arrow read, for these
    columns alone. Raises InputTypeError if there is no such column, InputError if it holds no text.
    """
    from gpulsh.io.columns import Columns, text_named

    text_column = text_named(text_column)
    kind = type(table).__name__
    given = f"{parameter} is {text_column!r}, and texts, a {kind},"
    if not has_columns(table):
        refuse_tables(table)
        table = _arrow_reader(table, given)
    columns = Columns(text_column)
    names = list(dict.fromkeys(name for name, *_ in columns.texts))
    is_reader, is_stream = type(table).__name__ in READERS, kind == "IterableDataset"
    if not is_stream or table.features is not None:
        _check_names(names, _names(table), given)
    if parameter != "text_column" and (is_reader or is_stream):
        instead = "a Dataset" if is_stream else "pyarrow.table(texts)"
        raise InputTypeError(f"{parameter} is {text_column!r}, and the {kind} is read once; give {instead}")
    if is_reader:
        return (_texts(_arrow(batch), columns) for batch in table)
    if is_stream:
        return (_texts(rows, columns) for rows in _data_set_rows(table, names, given))
    chosen = _chosen_columns(table, names)
    if columns.texts == ((names[0],),):
        return chosen[names[0]]
    return _texts(_arrow(chosen), columns)


def _arrow_reader(table: Any, given: str) -> pa.RecordBatchReader:
    """The rows of another library's table, such as a relation of DuckDB, by the Arrow C interface."""
    import pyarrow as pa

    try:
        return pa.RecordBatchReader.from_stream(table)
    except (pa.ArrowInvalid, TypeError):  # a column, or no Arrow data
        raise InputTypeError(
            f"{given} has no columns; leave it out, or give a table of pyarrow, pandas, polars or datasets"
        ) from None


def _check_names(names: list[str], present: list[str], given: str) -> None:
    for name in names:
        if name not in present:
            meant = nearest_name(name, present)
            near = "" if meant is None else f"; did you mean {meant!r}?"
            raise InputTypeError(
                f"{given} has no column {name!r}; its columns are: {', '.join(map(str, present))}{near}"
            )
        if (count := present.count(name)) > 1:
            raise InputTypeError(f"{given} has {count} columns {name!r}; rename the others")


def _data_set_rows(table: Any, names: list[str], given: str) -> Iterator[pa.Table]:
    """Columns of an IterableDataset: after `map` its types are unknown; after `filter` Arrow fails at nulls."""
    import pyarrow as pa

    schema = None
    if table.features is not None:
        table = table.select_columns(names)  # other columns, such as images, are not decoded
        schema = table.features.arrow_schema
        if getattr(getattr(table, "_ex_iterable", None), "iter_arrow", None):  # its rows are Arrow: far faster
            yield from table.with_format("arrow").iter(ROWS)
            return
    for rows in table.with_format(None).iter(ROWS):
        _check_names(names, list(rows), given)
        try:
            yield pa.table({name: rows[name] for name in names}, schema)
        except (pa.ArrowException, UnicodeEncodeError) as error:
            raise InputTypeError(f"{given} has values that Arrow cannot hold: {error}") from error


def _names(table: Any) -> list[str]:
    if type(table).__name__ == "LazyFrame":
        return list(table.collect_schema().names())
    if type(table).__name__ in READERS:
        return list(table.schema.names)
    names = getattr(table, "column_names", None)
    return list(table.columns if names is None else names)


def _chosen_columns(table: Any, names: list[str]) -> Any:
    """The columns as a table that is there."""
    home, _, _ = type(table).__module__.partition(".")
    if home == "datasets":
        return table.select_columns(names).with_format("arrow")[:]
    if home in ("pyarrow", "polars"):
        table = table.select(names)
        return table.collect() if hasattr(table, "collect") else table
    return table[names]


def _arrow(table: Any) -> pa.Table:
    import pyarrow as pa

    home, _, _ = type(table).__module__.partition(".")
    if home == "pyarrow":
        return table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    try:
        return pa.Table.from_pandas(table, preserve_index=False) if home == "pandas" else table.to_arrow()
    except pa.ArrowException as error:
        raise InputTypeError(f"texts, a {type(table).__name__}, holds no Arrow columns: {error}") from error


def _texts(table: pa.Table, columns: Columns) -> pa.ChunkedArray:
    import pyarrow as pa

    from gpulsh.io.arrow.texts import check_columns, text_column
    from gpulsh.io.arrow.validation import check_arrow
    from gpulsh.io.file import File

    check_arrow(table, "texts")
    check_columns(File("texts", "", ""), table.schema, columns)
    found = [text_column(batch, columns) for batch in table.to_batches()]
    return pa.chunked_array(found) if found else pa.chunked_array([], pa.string())
