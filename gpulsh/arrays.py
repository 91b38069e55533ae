"""The arrays that pass between stages: frozen, checked on construction, held by NumPy or CuPy alike.

A user may make them of any library's arrays that speak DLPack or the CUDA array interface (torch, Numba, JAX).

Rows of unequal length are compressed rows (CSR): `values` holds them end to end and row `i` is
`values[offset[i] : offset[i + 1]]`. Offsets are int64 and need not begin at 0, so that a slice of a batch is a view.
Pairs have no class of their own: an int64 array [m, 2] with i < j, lexicographic and unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpulsh.errors import ParameterError

Numbers = NDArray[np.int64]  # of documents, rows, buckets
Values = NDArray[Any]  # of a type that whoever asks for them knows
Array = Any  # numpy.ndarray or cupy.ndarray; cupy is not importable everywhere, so it has no static type here

HOST_MEMORY = (1, 3)  # DLPack's device types of a host's memory, the second pinned
DEVICE_MEMORY = (2, 13)  # of a CUDA device's, the second managed


def dlpack_device(array: object) -> int | None:
    """The DLPack device type of an array; None where it does not say."""
    return int(array.__dlpack_device__()[0]) if hasattr(array, "__dlpack_device__") else None


def held(array: Array) -> Array:
    """An array of any library as these classes hold it: host memory as NumPy's, not copied; all else as it is."""
    if isinstance(array, np.ndarray) or dlpack_device(array) not in HOST_MEMORY:
        return array
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):  # of a type that NumPy does not know
        return array


def on_host(array: Array) -> Array:
    """An array of any library as NumPy's: a copy where it lies on a device, a view where it lies on the host."""
    array = held(array)
    if isinstance(array, np.ndarray):
        return array
    for name in ("to_numpy", "copy_to_host", "get", "cpu"):  # pandas and cuDF, Numba, CuPy, torch
        if hasattr(array, name):
            return np.asarray(held(getattr(array, name)()))
    try:
        return np.asarray(array)
    except (TypeError, RuntimeError) as error:
        raise ParameterError(
            f"an array of {type(array).__name__} cannot be copied from its device ({error});"
            " give it as a CuPy or NumPy array, or ask for backend='cuda'"
        ) from error


def dtype_of(array: Array) -> np.dtype[np.generic] | None:
    """The NumPy dtype of an array of any library; None where it has none."""
    given = getattr(array, "dtype", None)
    if isinstance(given, np.dtype):
        return given
    for name in (given, str(given).rpartition(".")[2]):  # torch.uint8 is named as NumPy's
        try:
            return None if given is None else np.dtype(name)
        except TypeError:
            pass
    return None


def _check(owner: object, name: str, array: Array, dtype: type[np.generic], ndim: int) -> None:
    array = held(array)
    object.__setattr__(owner, name, array)
    if dtype_of(array) != np.dtype(dtype) or array.ndim != ndim:
        given = f"{getattr(array, 'dtype', type(array).__name__)} with {getattr(array, 'ndim', 'no')} dimensions"
        wanted = f"{np.dtype(dtype).name} with {ndim}"
        raise ParameterError(f"{type(owner).__name__}.{name} is {given}; give an array of {wanted}")


def _check_offset(owner: object, offset: Array, values: Array) -> None:
    _check(owner, "offset", offset, np.int64, 1)
    if len(offset) == 0:
        raise ParameterError(f"{type(owner).__name__}.offset is empty; give n + 1 offsets for n rows")
    offset = held(offset)
    if isinstance(offset, np.ndarray):  # a device's offsets are checked by `Rows.moved`
        _check_ascends(owner, offset, values)


def _check_ascends(owner: object, offset: Array, values: Array) -> None:
    if int(offset[0]) < 0 or int(offset[-1]) > len(values) or bool((offset[1:] < offset[:-1]).any()):
        raise ParameterError(
            f"{type(owner).__name__}.offset does not ascend within [0, {len(values)}]; give the start of each row"
            " and the end of the last"
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """Compressed rows, the base of TextBatch, Tokens and Fingerprints, which are checked to hold values of a `kind`."""

    kind: ClassVar[type[np.generic] | None] = None

    values: Array
    offset: Array

    def __post_init__(self) -> None:
        if self.kind is not None:
            _check(self, "values", self.values, self.kind, 1)
            _check_offset(self, self.offset, self.values)

    def __len__(self) -> int:
        return len(self.offset) - 1

    def slice(self, start: int, stop: int) -> Self:
        """Rows [start, stop) as a view: `values` is shared, only the offsets are cut."""
        return type(self)(self.values, self.offset[start : stop + 1])

    def moved(self, asarray: Callable[[Array], Array]) -> Self:
        """The rows as `asarray` gives their two arrays, where the offsets of a device's are checked, too."""
        there = type(self)(asarray(self.values), asarray(self.offset))
        if not isinstance(there.offset, np.ndarray):
            _check_ascends(self, there.offset, there.values)
        return there


@dataclass(frozen=True, eq=False)
class TextBatch(Rows):
    """Documents as UTF-8: `values` uint8 [bytes], `offset` int64 [n + 1]. A null document is an empty row."""

    kind = np.uint8


@dataclass(frozen=True, eq=False)
class Tokens(Rows):
    """Tokens as 64-bit hashes, in text order: `values` uint64 [nnz], `offset` int64 [n + 1]."""

    kind = np.uint64


@dataclass(frozen=True, eq=False)
class Fingerprints(Rows):
    """Shingles as 64-bit hashes: `values` uint64 [nnz], `offset` int64 [n + 1]."""

    kind = np.uint64


@dataclass(frozen=True, eq=False)
class Samples(Rows):
    """Samples of sets of fingerprints: `values` uint64 [nnz], each row ascending, `offset` int64 [n + 1]."""

    kind = np.uint64


@dataclass(frozen=True, eq=False)
class WeightedFingerprints:
    """Weighted sets: uint64 `values` [nnz], distinct and ascending within a row, with float64 `weight` [nnz] above 0.

    `offset` int64 [n + 1] cuts both into rows.
    """

    values: Array
    weight: Array
    offset: Array

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint64, 1)
        _check(self, "weight", self.weight, np.float64, 1)
        _check_offset(self, self.offset, self.values)
        if len(self.weight) != len(self.values):
            raise ParameterError(
                f"{type(self).__name__} has {len(self.values)} values and {len(self.weight)} weights; give a weight"
                " for each value"
            )
        if all(isinstance(array, np.ndarray) for array in (self.values, self.weight, self.offset)):
            self._check_rows()

    def __len__(self) -> int:
        return len(self.offset) - 1

    def moved(self, asarray: Callable[[Array], Array]) -> Self:
        """The rows as `asarray` gives their three arrays, where those of a device are checked, too."""
        there = type(self)(asarray(self.values), asarray(self.weight), asarray(self.offset))
        if not isinstance(there.offset, np.ndarray):
            _check_ascends(there, there.offset, there.values)
            there._check_rows()
        return there

    def _check_rows(self) -> None:
        first, last = int(self.offset[0]), int(self.offset[-1])
        values, weight = self.values[first:last], self.weight[first:last]
        ascends = values[1:] > values[:-1]
        starts = self.offset[1:-1]
        ascends[starts[(starts > first) & (starts < last)] - (first + 1)] = True
        if not bool(ascends.all()):
            raise ParameterError(
                f"{type(self).__name__}.values does not ascend within each row; give each row sorted and without"
                " repeats"
            )
        if not bool(((weight > 0) & (weight < np.inf)).all()):
            raise ParameterError(f"{type(self).__name__}.weight has weights that are not above 0 and finite; drop them")


class _Matrix:
    """An array of one row a document, handed out as itself to whoever asks for an array."""

    values: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        dtype = dtype_of(self.values)
        assert dtype is not None
        return dtype

    def __getitem__(self, key: object) -> Array:
        return self.values[key]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.values)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Values:
        return np.asarray(on_host(self.values), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: object) -> object:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, device = self.values.__dlpack_device__()
        return kind, device

    @property
    def __cuda_array_interface__(self) -> object:
        return self.values.__cuda_array_interface__  # an AttributeError on the host, as consumers expect


@dataclass(frozen=True, eq=False)
class Signatures(_Matrix):
    """Signatures: `values` uint32 or, by the family `affine61`, uint64 [n, num_perm]; all ones where a set is empty."""

    values: Array

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint64 if dtype_of(self.values) == np.uint64 else np.uint32, 2)


@dataclass(frozen=True, eq=False)
class _Words(_Matrix):
    """A row of 64-bit words a document: `values` uint64 [n, words]."""

    values: Array

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint64, 2)


@dataclass(frozen=True, eq=False)
class PackedSignatures(_Words):
    """Signatures of few bits a value: `values` uint64 [n, ceil(num_perm * bits / 64)], the first value lowest."""


@dataclass(frozen=True, eq=False)
class BandDigests(_Words):
    """Digests of signature bands: `values` uint64 [n, bands]; 2^64 - 1 means *no digest*."""


@dataclass(frozen=True, eq=False)
class BitSignatures(_Words):
    """Signatures of bits: `values` uint64 [n, bits / 64], bit i of a row being bit i % 64 of its word i // 64."""


@dataclass(frozen=True, eq=False)
class _Ids:
    """Rows of documents' numbers."""

    ids: Array
    offset: Array

    def __post_init__(self) -> None:
        _check(self, "ids", self.ids, np.int64, 1)
        _check_offset(self, self.offset, self.ids)

    def __len__(self) -> int:
        return len(self.offset) - 1


@dataclass(frozen=True, eq=False)
class Buckets(_Ids):
    """Documents that share a band digest: `ids` int64 end to end, `offset` int64 [buckets + 1], two ids or more each.

    Buckets ascend by digest and ids ascend within a bucket.
    """


@dataclass(frozen=True, eq=False)
class Neighbours(_Ids):
    """What each query found: `ids` int64 end to end, `offset` int64 [queries + 1]; ids ascend within a row."""


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
