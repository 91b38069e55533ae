"""What was decided about every document, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.dedup.funnel import Funnel
from gpulsh.errors import ParameterError


@dataclass(frozen=True)
class Decision:
    """The outcome of `deduplicate` for n documents, by position; NumPy arrays whatever the backend.

    A document is dropped only where a kept document is at least `threshold` similar to it; `duplicate_of` names that
    document and `similarity` says how similar (`resolve="kept"`, `verify="exact"`).
    """

    keep: NDArray[np.bool_]  # [n]
    duplicate_of: NDArray[np.int64]  # [n] position of the kept document it duplicates; its own where kept
    similarity: NDArray[np.float32]  # [n] Jaccard with duplicate_of; 1.0 where kept
    cluster: NDArray[np.int64]  # [n] smallest position of its connected component of verified pairs
    pairs: NDArray[np.int64]  # [m, 2] verified pairs, i < j, lexicographic
    pair_similarity: NDArray[np.float32]  # [m]
    funnel: Funnel

    def __len__(self) -> int:
        return len(self.keep)

    def to_arrow(self) -> Any:
        """A pyarrow.Table of n rows: keep, duplicate_of, similarity, cluster."""
        import pyarrow as pa

        return pa.table({name: getattr(self, name) for name in ("keep", "duplicate_of", "similarity", "cluster")})

    def filter(self, table: Any) -> Any:
        """The kept rows of a pyarrow, pandas or polars object, or a NumPy array, of n rows.

        Raises ParameterError where the length differs or the object has no rows to choose.
        """
        rows = len(table) if hasattr(table, "__len__") else None
        if rows != len(self):
            raise ParameterError(f"table has {rows} rows and the decision {len(self)}; give the rows that were decided")
        home = type(table).__module__.partition(".")[0]
        if home == "pyarrow":
            import pyarrow as pa

            return table.filter(pa.array(self.keep))
        if home == "pandas":
            return table[self.keep]
        if home == "polars":
            return table.filter(self.keep)
        if isinstance(table, np.ndarray):
            return table[self.keep]
        if isinstance(table, (list, tuple)):
            return [row for row, keep in zip(table, self.keep.tolist(), strict=True) if keep]
        raise ParameterError(
            f"table is of type {type(table).__name__}; give a pyarrow, pandas or polars object, an array or a list"
        )
