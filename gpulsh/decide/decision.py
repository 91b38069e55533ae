"""The outcome of a run: the decision about every document, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Arrays, Rows, Values, html_table, on_host, whole_column
from gpulsh.checks import plural, shown_type
from gpulsh.decide.counts.counts import Sightings, count, dates, kept_sightings
from gpulsh.errors import BackendError, ParameterError
from gpulsh.ragged import offsets, select_rows
from gpulsh.stats.stages import Funnel

if TYPE_CHECKING:
    import pyarrow as pa

    from gpulsh.decide.counts.weights import WeightBy

Row = TypeVar("Row")
Number = TypeVar("Number", bound=np.generic)
Table = TypeVar("Table")

COLUMNS = ("keep", "duplicate_of", "similarity", "cluster")  # one value per document
# The columns of `duplicates.parquet` that a decision knows, and the texts.
NAMES = (*("row", "id", "text", "duplicate_of_row", "duplicate_of_id", "duplicate_of_text"), *("similarity", "cluster"))
LIBRARIES = ("pyarrow", "pandas", "polars")  # whose tables get marks
FIRST = 10  # dropped documents that a notebook shows


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Arrays):
    """The outcome of `deduplicate` for n documents, by position: NumPy arrays, or CuPy arrays on CUDA.

    A document is dropped only if its similarity to a kept document is at least `threshold` (`resolve="kept"`,
    `verify="exact"`). `duplicate_of` is that document, and `similarity` their similarity. Two decisions are equal if
    their decisions and evidence are; times do not matter.

    keep             bool [n]
    duplicate_of     int64 [n]: position of the kept document it duplicates; its own position if it is kept, or left out
                     by `min_sources`
    similarity       float32 [n]: similarity with that document, by `measure`; NaN if it was not measured, as with
                     verify="none" or for copies by `key`; 1.0 if kept or left out
    cluster          int64 [n]: smallest position of its connected component of verified pairs
    pairs            int64 [m, 2]: verified pairs, i < j, lexicographic
    pair_similarity  float32 [m]
    exact_copy       bool [n]: dropped, with the words of that document in the same order, or with its `key`
    funnel           counts and running time of every stage

    >>> import gpulsh
    >>> gpulsh.deduplicate(["One, two, three.", "one two three", "four"], backend="cpu")
    Decision(documents=3, kept=2, dropped=1, pairs=1)
    """

    keep: NDArray[np.bool_]
    duplicate_of: NDArray[np.int64]
    similarity: NDArray[np.float32]
    cluster: NDArray[np.int64]
    pairs: NDArray[np.int64]
    pair_similarity: NDArray[np.float32]
    exact_copy: NDArray[np.bool_]
    funnel: Funnel = field(compare=False)
    sightings: Sightings | None = field(default=None, compare=False)  # by `source_column` and `date_column`

    def __repr__(self) -> str:
        kept, dropped = self.funnel.kept, self.funnel.dropped
        return f"Decision(documents={len(self)}, kept={kept}, dropped={dropped}, pairs={len(self.pairs)})"

    def _repr_html_(self) -> str:
        columns = [np.arange(len(self)), *(on_host(getattr(self, name)) for name in COLUMNS[1:])]  # of any device
        first = np.flatnonzero(columns[0] != columns[1])[:FIRST]
        rows = zip(*(column[first].tolist() for column in columns), strict=True)
        return html_table(repr(self), ("dropped", *COLUMNS[1:]), rows)

    def __len__(self) -> int:
        return len(self.keep)

    def to_numpy(self) -> Decision:
        """The decision with NumPy arrays; itself if it has them."""
        keep: Array = self.keep
        if isinstance(keep, np.ndarray):
            return self
        names = (*COLUMNS, "pairs", "pair_similarity", "exact_copy")
        return replace(self, **{name: getattr(self, name).get() for name in names})

    def to_arrow(self) -> pa.Table:
        """A pyarrow.Table of n rows: keep, duplicate_of, similarity, cluster."""
        import pyarrow as pa

        return pa.table(self._columns())

    def to_pandas(self) -> Any:
        """The same as a pandas.DataFrame, indexed by position. Raises BackendError if pandas is missing."""
        return _library("pandas").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """The same as a polars.DataFrame. Raises BackendError if polars is missing."""
        return _library("polars").DataFrame(self._columns())

    def to_cudf(self) -> Any:
        """The same as a cudf.DataFrame, without a copy of device arrays. Raises BackendError if cuDF fails."""
        from gpulsh.io.memory.cudf import data_frame

        return data_frame({name: getattr(self, name) for name in COLUMNS})

    def duplicates(self, *, ids: object = None, texts: object = None) -> pa.Table:
        """A pyarrow.Table with a row for each dropped document and its duplicate, as in duplicates.parquet.

        Its columns are `row` int64, `duplicate_of_row` int64, `similarity` float32 and `cluster` int64. `ids`, a column
        or list of n, adds `id` and `duplicate_of_id` of its type; `texts`, the deduplicated texts, adds `text` and
        `duplicate_of_text`. Raises ParameterError if either has another length or is not a column.

        >>> import gpulsh
        >>> texts = ["One, two, three.", "one two three", "four"]
        >>> gpulsh.deduplicate(texts, backend="cpu").duplicates(ids=["a", "b", "c"]).to_pylist()
        [{'row': 1, 'id': 'b', 'duplicate_of_row': 0, 'duplicate_of_id': 'a', 'similarity': 1.0, 'cluster': 0}]
        """
        import pyarrow as pa

        here = self.to_numpy()
        row = np.flatnonzero(here.duplicate_of != np.arange(len(here)))
        other = here.duplicate_of[row]
        found: dict[str, Any] = {"row": row, "duplicate_of_row": other}
        found |= {"similarity": here.similarity[row], "cluster": here.cluster[row]}
        if ids is not None:
            from gpulsh.io.arrow.buffers import take_rows
            from gpulsh.io.arrow.validation import checked_column

            column = checked_column("ids", ids, len(self))
            found |= {"id": take_rows(column, row), "duplicate_of_id": take_rows(column, other)}
        if texts is not None:
            from gpulsh.io.arrow.texts import strings_of
            from gpulsh.io.memory.texts import open_texts

            source = open_texts(texts)
            self._check_length("texts", len(source))
            for name, rows in (("text", row), ("duplicate_of_text", other)):
                found[name] = strings_of(source.choose(rows).take(np.arange(len(rows))))
        return pa.table({name: found[name] for name in NAMES if name in found})

    def clusters(self) -> pa.Table:
        """A pyarrow.Table with a row for each cluster of two or more documents, the largest first, ties to the earlier.

        Its columns are `cluster` int64, `size` int64, `kept` int64 (the number of kept documents) and `rows`, a list of
        int64: the positions, ascending.

        >>> import gpulsh
        >>> gpulsh.deduplicate(
        ...     ["One, two, three.", "one two three", "four"], backend="cpu"
        ... ).clusters().to_pylist()
        [{'cluster': 0, 'size': 2, 'kept': 1, 'rows': [0, 1]}]
        """
        import pyarrow as pa

        here = self.to_numpy()
        labels, sizes = np.unique(here.cluster, return_counts=True)
        ranked = np.argsort(-sizes, kind="stable")
        ranked = ranked[sizes[ranked] > 1]
        kept = np.bincount(here.cluster[here.keep], minlength=len(here))
        rows = select_rows(Rows(np.argsort(here.cluster, kind="stable"), offsets(sizes)), ranked)
        columns: dict[str, Any] = {"cluster": labels[ranked], "size": sizes[ranked], "kept": kept[labels[ranked]]}
        return pa.table({**columns, "rows": pa.LargeListArray.from_arrays(rows.offset, rows.values)})

    def counts(self) -> pa.Table:
        """A pyarrow.Table with a row for each kept document, in order: the number of documents that it represents.

        Its columns are `row`, `copies`, `near`, `component` and `sources`, all int64; `source_names`, a list of
        strings; `first_seen` and `last_seen`, timestamp[us, tz=UTC]. `gpulsh.decide.counts.counts` defines them.
        Sources are the values of `source_column`; without it, all documents have one source without a name. Dates come
        from `date_column`; without it, they are null.

        >>> import gpulsh
        >>> texts = ["One, two, three.", "one two three", "four"]
        >>> gpulsh.deduplicate(texts, backend="cpu").counts().select(
        ...     ["row", "copies", "near", "component"]
        ... ).to_pylist()
        [{'row': 0, 'copies': 1, 'near': 0, 'component': 2}, {'row': 2, 'copies': 0, 'near': 0, 'component': 1}]
        """
        import pyarrow as pa

        here = self.to_numpy()
        row = np.flatnonzero(here.keep)
        return pa.table({"row": row, **here._counts_of(row)})

    def weights(self, recipe: str | Mapping[int, float], *, weight_by: WeightBy = "verified") -> NDArray[np.float64]:
        """float64 [k]: the sampling weight of each kept document, in order, by the number of documents it represents.

        `recipe` is "txt360", "log", "cap:5", a file in FineWeb-2's bucket format such as "weights.json", or a mapping
        of least sizes to weights; `gpulsh.decide.counts.weights` defines them. `weight_by` is "verified", for 1 +
        copies + near, or "component". Raises ParameterError, or InputError for a file without weights.

        >>> import gpulsh
        >>> gpulsh.deduplicate(["One, two, three.", "one two three", "four"], backend="cpu").weights("txt360")
        array([3., 1.])
        """
        from gpulsh.decide.counts.weights import parse_recipe, sizes_by

        here = self.to_numpy()
        counts = count(here.duplicate_of, here.exact_copy, here.cluster)
        return parse_recipe(recipe).weights(sizes_by(weight_by, counts)[here.keep])

    def mark(self, table: Any, *, ids: object = None) -> Any:
        """Add the decision and the counts to all n rows of a table of pyarrow, pandas or polars.

        The columns are `kept` bool, `duplicate_of_row` int64, `similarity` float32, `cluster` int64 and the columns of
        `counts`. In a kept row, `duplicate_of_row` and `similarity` are null; in a dropped row, all counts but
        `component` are. `ids`, a column or list of n, adds `duplicate_of_id` of its type. `filter` returns the rows in
        which `kept` is true, without these columns. Raises ParameterError if the length differs or the table has one of
        the columns.

        >>> import gpulsh, pyarrow
        >>> table = pyarrow.table({"text": ["One, two, three.", "one two three", "four"]})
        >>> marked = gpulsh.deduplicate(table, text_column="text", backend="cpu").mark(table)
        >>> marked.select(["kept", "duplicate_of_row", "similarity", "copies"]).to_pylist()[1]
        {'kept': False, 'duplicate_of_row': 0, 'similarity': 1.0, 'copies': None}
        """
        from gpulsh.io.arrow.buffers import take_rows, to_arrow
        from gpulsh.io.arrow.validation import checked_column

        home, kind = type(table).__module__.partition(".")[0], type(table).__name__
        if home not in LIBRARIES or kind not in ("Table", "RecordBatch", "DataFrame"):
            given = shown_type(table)
            raise ParameterError(f"table is {given}; give a Table of pyarrow, or a DataFrame of pandas or polars")
        self._check_length("table", len(table), "the rows that were decided")
        here = self.to_numpy()
        kept, none = here.keep, here.duplicate_of == np.arange(len(here))
        columns = {"kept": to_arrow(kept), "duplicate_of_row": to_arrow(here.duplicate_of, none)}
        if ids is not None:
            column = checked_column("ids", ids, len(self))
            columns["duplicate_of_id"] = take_rows(column, here.duplicate_of, none)
        columns["similarity"] = to_arrow(here.similarity, none)
        columns["cluster"] = to_arrow(here.cluster)
        places = to_arrow(np.cumsum(kept) - 1, ~kept)
        columns |= {name: column.take(places) for name, column in here._counts_of(np.flatnonzero(kept)).items()}
        columns["component"] = to_arrow(count(here.duplicate_of, here.exact_copy, here.cluster).component)
        return _with_columns(table, columns)

    def _counts_of(self, row: NDArray[np.int64]) -> dict[str, pa.Array]:
        """The counts of the kept documents at `row`; the decision is in NumPy's arrays."""
        import pyarrow as pa

        found = count(self.duplicate_of, self.exact_copy, self.cluster)
        where = kept_sightings(self.duplicate_of, row, self.sightings or Sightings.from_one_source())
        return {
            **{name: pa.array(column[row]) for name, column in found._asdict().items()},
            "sources": pa.array(where.sources),
            "source_names": where.source_names,
            "first_seen": dates(where.first),
            "last_seen": dates(where.last),
        }

    @overload
    def filter(self, table: tuple[Row, ...]) -> list[Row]: ...

    @overload  # a case of the next one, without which pyright takes the result of an untyped table for a list
    def filter(self, table: NDArray[Number]) -> NDArray[Number]: ...

    @overload
    def filter(self, table: Table) -> Table: ...

    def filter(self, table: Any) -> Any:
        """The kept rows of a table of n rows, as the same type; of a tuple or a column of `datasets`, a list.

        `table` is a pyarrow, pandas, polars, cuDF or `datasets` object, a list, or a NumPy or CuPy array. A polars
        LazyFrame selects its rows and checks its length when it is collected. Collect it first if the order of its rows
        may change each time, as after `unique`, `join` or `group_by`. Raises ParameterError if the length differs or
        the object has no rows.
        """
        home = type(table).__module__.partition(".")[0]
        if home == "polars" and hasattr(table, "collect"):
            return table.filter(self.to_numpy().keep)
        if not hasattr(type(table), "__len__") or isinstance(table, dict) or getattr(table, "shape", None) == ():
            raise ParameterError(f"table is {shown_type(table)}, which has no rows; give the rows that were decided")
        if home == "scipy":  # its sparse arrays have no length
            raise ParameterError(
                f"table is a {type(table).__name__} of scipy; index it with the array keep, as in table[result.keep]"
            )
        self._check_length("table", len(table), "the rows that were decided")
        if home in ("cudf", "cupy"):
            from gpulsh.io.memory.cudf import kept_rows

            return kept_rows(table, self.keep)
        keep = self.to_numpy().keep
        if home == "pyarrow":
            from gpulsh.io.arrow.buffers import filter_rows
            from gpulsh.io.arrow.validation import check_arrow

            check_arrow(table, "table")
            return filter_rows(table, keep)
        if home == "polars":
            return table.filter(keep)
        if home == "datasets" and hasattr(table, "select"):
            return table.select(np.flatnonzero(keep))
        if home == "pandas" or isinstance(table, np.ndarray):
            return table[keep]
        if isinstance(table, (list, tuple)) or home == "datasets":
            return [row for row, stays in zip(whole_column(table), keep.tolist(), strict=True) if stays]
        raise ParameterError(
            f"table is of type {type(table).__name__}; give a pyarrow, pandas, polars, cuDF or datasets"
            " object, an array or a list"
        )

    def _columns(self) -> dict[str, Values]:
        here = self.to_numpy()
        return {name: getattr(here, name) for name in COLUMNS}

    def _check_length(self, name: str, given: int, wanted: str = "one for each document") -> None:
        if given != len(self):
            raise ParameterError(f"{name} has {plural(given, 'row')} and the decision {len(self)}; give {wanted}")


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise BackendError(f"to_{name}() needs {name}: pip install {name}, or use to_arrow()") from error


def _with_columns(table: Any, columns: Mapping[str, pa.Array]) -> Any:
    """A table of pyarrow, pandas or polars with more columns. Raises ParameterError if it has one of them."""
    import pyarrow as pa

    home = type(table).__module__.partition(".")[0]
    present = list(table.schema.names if home == "pyarrow" else table.columns)
    for name in columns:
        if name in present:
            raise ParameterError(f"table has a column {name!r}, which would be added; rename it")
    added = pa.table(dict(columns))
    if home == "pyarrow":
        whole = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
        for name, column in columns.items():
            whole = whole.append_column(name, column)
        return whole
    if home == "polars":
        import polars

        return table.hstack(polars.from_arrow(added))
    import pandas

    whole_numbers = {pa.int64(): pandas.Int64Dtype()}  # pandas' integers with nulls
    frame = added.to_pandas(types_mapper=whole_numbers.get)
    return pandas.concat([table, frame.set_axis(table.index, axis=0)], axis=1)
