"""The arrays that pass between stages: frozen, checked on construction, held by NumPy or CuPy alike.

Rows of unequal length are compressed rows (CSR): `values` holds them end to end and row `i` is
`values[offset[i] : offset[i + 1]]`. Offsets are int64 and need not begin at 0, so that a slice of a batch is a view.
Pairs have no class of their own: an int64 array [m, 2] with i < j, lexicographic and unique.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gpulsh.errors import ParameterError

Array = Any  # numpy.ndarray or cupy.ndarray; cupy is not importable everywhere, so it has no static type here


def _check(owner: object, name: str, array: Array, dtype: type[np.generic], ndim: int) -> None:
    if getattr(array, "dtype", None) != np.dtype(dtype) or array.ndim != ndim:
        given = f"{getattr(array, 'dtype', type(array).__name__)} with {getattr(array, 'ndim', 'no')} dimensions"
        wanted = f"{np.dtype(dtype).name} with {ndim}"
        raise ParameterError(f"{type(owner).__name__}.{name} is {given}; give an array of {wanted}")


def _check_offset(owner: object, offset: Array, values: Array) -> None:
    _check(owner, "offset", offset, np.int64, 1)
    if len(offset) == 0:
        raise ParameterError(f"{type(owner).__name__}.offset is empty; give n + 1 offsets for n rows")
    if isinstance(offset, np.ndarray) and (
        offset[0] < 0 or offset[-1] > len(values) or bool((offset[1:] < offset[:-1]).any())
    ):
        raise ParameterError(
            f"{type(owner).__name__}.offset does not ascend within [0, {len(values)}]; give the start of each row"
            " and the end of the last"
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """Compressed rows, the base of TextBatch and Fingerprints."""

    values: Array
    offset: Array

    def __len__(self) -> int:
        return len(self.offset) - 1

    def slice(self, start: int, stop: int) -> Self:
        """Rows [start, stop) as a view: `values` is shared, only the offsets are cut."""
        return type(self)(self.values, self.offset[start : stop + 1])


@dataclass(frozen=True, eq=False)
class TextBatch(Rows):
    """Documents as UTF-8: `values` uint8 [bytes], `offset` int64 [n + 1]. A null document is an empty row."""

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint8, 1)
        _check_offset(self, self.offset, self.values)


@dataclass(frozen=True, eq=False)
class Fingerprints(Rows):
    """Shingles as 64-bit hashes: `values` uint64 [nnz], `offset` int64 [n + 1]."""

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint64, 1)
        _check_offset(self, self.offset, self.values)


class _Matrix:
    """An array of one row a document, handed out as itself to whoever asks for an array."""

    values: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self.values.dtype)
        return dtype

    def __getitem__(self, key: Any) -> Array:
        return self.values[key]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        host = self.values.get() if hasattr(self.values, "get") else self.values
        return np.asarray(host, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.values.__cuda_array_interface__  # an AttributeError on the host, as consumers expect


@dataclass(frozen=True, eq=False)
class Signatures(_Matrix):
    """MinHash signatures: `values` uint32 [n, num_perm]; a row of all ones belongs to an empty document."""

    values: Array

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint32, 2)


@dataclass(frozen=True, eq=False)
class BandDigests(_Matrix):
    """Digests of signature bands: `values` uint64 [n, bands]; 2^64 - 1 means *no digest*."""

    values: Array

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint64, 2)


@dataclass(frozen=True, eq=False)
class Buckets:
    """Documents that share a band digest: `ids` int64 end to end, `offset` int64 [buckets + 1], two ids or more each.

    Buckets ascend by digest and ids ascend within a bucket.
    """

    ids: Array
    offset: Array

    def __post_init__(self) -> None:
        _check(self, "ids", self.ids, np.int64, 1)
        _check_offset(self, self.offset, self.ids)

    def __len__(self) -> int:
        return len(self.offset) - 1


@dataclass(frozen=True, eq=False)
class Signed:
    """What the sign stage keeps of each document of a batch."""

    digests: Array  # uint64 [n, bands]
    exact: Array  # uint64 [n, 2], the 128-bit hash of the token sequence
    shingles: Array  # int64 [n], shingles with repeats; 0 for an empty document

    def __post_init__(self) -> None:
        _check(self, "digests", self.digests, np.uint64, 2)
        _check(self, "exact", self.exact, np.uint64, 2)
        _check(self, "shingles", self.shingles, np.int64, 1)
