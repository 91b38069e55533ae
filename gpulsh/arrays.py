"""The arrays that pass between stages: frozen, checked on construction, in NumPy or CuPy memory.

They take arrays of any library with DLPack or the CUDA array interface (torch, Numba, JAX). Two are equal if they hold
the same values, in any memory; a repr shows types and shapes.

Rows of unequal length are compressed rows (CSR): `values` holds them end to end and row `i` is
`values[offset[i] : offset[i + 1]]`. Offsets are int64 and need not begin at 0, so that a slice of a batch is a view.
Pairs have no class of their own: an int64 array [m, 2] with i < j, lexicographic and unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpulsh.errors import ParameterError

Numbers = NDArray[np.int64]  # of documents, rows, buckets
Words = NDArray[np.uint64]  # hashes, digests, keys
Values = NDArray[Any]  # of a type that the caller knows
Array = Any  # numpy.ndarray or cupy.ndarray; cupy is not importable everywhere, so it has no static type here

HOST_MEMORY = (1, 3)  # DLPack's device types of a host's memory, the second pinned
DEVICE_MEMORY = (2, 13)  # of a CUDA device's, the second managed
SHOWN_VALUES = 8  # values of an array in a notebook


def dlpack_device(array: object) -> int | None:
    """The DLPack device type of an array, if it has one."""
    return int(array.__dlpack_device__()[0]) if hasattr(array, "__dlpack_device__") else None


def adopt_array(array: Array) -> Array:
    """An array of any library as these classes hold it: as a NumPy view in host memory, otherwise unchanged."""
    if isinstance(array, np.ndarray):
        return np.asarray(array)  # `numpy.matrix`, which SciPy makes, has rules of its own
    if dlpack_device(array) not in HOST_MEMORY:
        return array
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):  # a type that NumPy does not know
        return array


def checked_array(name: str, value: Any, wanted: str) -> Array:
    """`value` as an array of its library, or of NumPy.

    Raises ParameterError if its rows have unequal length, or values are masked.
    """
    if isinstance(value, type):
        raise ParameterError(f"{name} is the class {value.__name__}; give {wanted}")
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise ParameterError(f"{name} has masked values; fill them, and give {wanted}")
        value = value.data
    try:
        return adopt_array(value) if hasattr(value, "dtype") else np.asarray(value)
    except (NotImplementedError, ValueError) as error:  # the former of an Arrow type that NumPy lacks
        raise ParameterError(f"{name} is not an array: {error}; give {wanted}") from None


def on_host(array: Array) -> Array:
    """An array of any library as NumPy's: a copy of device memory, a view of host memory."""
    array = adopt_array(array)
    if isinstance(array, np.ndarray):
        return array
    for name in ("to_numpy", "copy_to_host", "get", "cpu"):  # pandas and cuDF, Numba, CuPy, torch
        if hasattr(array, name):
            return np.asarray(adopt_array(getattr(array, name)()))
    try:
        return np.asarray(array)
    except (TypeError, RuntimeError) as error:
        raise ParameterError(
            f"an array of {type(array).__name__} cannot be copied from its device ({error});"
            " give it as a CuPy or NumPy array, or use backend='cuda'"
        ) from error


def whole_column(values: Any) -> Any:
    """All values of a column of `datasets` at once, because one by one takes a hundred times as long; others as is."""
    kind = type(values)
    is_column = kind.__name__ == "Column" and kind.__module__.partition(".")[0] == "datasets"
    return values[:] if is_column else values


def dtype_of(array: Array) -> np.dtype[np.generic] | None:
    """The NumPy dtype of an array of any library, if it has one."""
    given = getattr(array, "dtype", None)
    if isinstance(given, np.dtype):
        return given
    for name in (given, str(given).rpartition(".")[2]):  # torch.uint8 has NumPy's name
        try:
            return None if given is None else np.dtype(name)
        except (TypeError, ValueError):
            pass
    return None


def _check(owner: object, name: str, array: Array, dtype: type[np.generic], ndim: int) -> None:
    if type(array) is np.ndarray and array.dtype == dtype and array.ndim == ndim:
        return
    array = adopt_array(array)
    object.__setattr__(owner, name, array)
    given_dtype = dtype_of(array)
    if given_dtype is None or given_dtype != np.dtype(dtype) or array.ndim != ndim:
        given = f"a {array.ndim}-dimensional array" if hasattr(array, "ndim") else f"of type {type(array).__name__}"
        given += f" of {array.dtype}" if hasattr(array, "dtype") else ""
        wanted = f"a {ndim}-dimensional array of {np.dtype(dtype).name}"
        raise ParameterError(f"{type(owner).__name__}.{name} is {given}; give {wanted}")


def _check_offset(owner: _ByOffset, values: Array) -> None:
    _check(owner, "offset", owner.offset, np.int64, 1)
    if len(owner.offset) == 0:
        raise ParameterError(f"{type(owner).__name__}.offset is empty; give n + 1 offsets for n rows")
    offset = adopt_array(owner.offset)
    if isinstance(offset, np.ndarray):  # a device's offsets are checked by `Rows.moved`
        _check_ascends(owner, offset, values)


def _check_ascends(owner: object, offset: Array, values: Array) -> None:
    first, last = int(offset[0]), int(offset[-1])
    descents = first > last if len(offset) <= 2 else np.count_nonzero(offset[1:] < offset[:-1])
    if first < 0 or last > len(values) or descents:
        raise ParameterError(
            f"{type(owner).__name__}.offset does not ascend within [0, {len(values)}]; give the start of each row"
            " and the end of the last"
        )


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table under its caption; None is an empty cell, a fraction has four digits.

    >>> html_table("a < b", ["n", "p"], [[1, 2 / 3], [2, None]])[48:]
    '<th>p</th></tr><tr><td>1</td><td>0.6667</td></tr><tr><td>2</td><td></td></tr></table>'
    """
    html = [f"<table><caption>{escape(caption)}</caption>"]
    for tag, cells in [("th", head), *(("td", row) for row in rows)]:
        html += ["<tr>", *(f"<{tag}>{_cell(cell)}</{tag}>" for cell in cells), "</tr>"]
    return "".join([*html, "</table>"])


def _cell(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.4f}"
    return "" if cell is None else escape(str(cell))


class Arrays:
    """The base of dataclasses of arrays: a repr of one line, equality by value, a table in a notebook."""

    def __repr__(self) -> str:
        parts = (f"{name}={_describe(value)}" for name, value in self._repr_fields())
        return f"{type(self).__name__}({', '.join([*self._count(), *parts])})"

    def _repr_html_(self) -> str:
        rows = ((name, _describe(value), _first_values(value)) for name, value in self._repr_fields())
        return html_table(self._caption(), ("", "holds", "begins with"), rows)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(map(_equal, self._compared_values(), other._compared_values()))

    __hash__ = None  # type: ignore[assignment]  # like arrays, which compare by value, too

    def _caption(self) -> str:
        return ", ".join([type(self).__name__, *self._count()])

    def _count(self) -> list[str]:
        return [f"{len(self):,} row{'s' if len(self) != 1 else ''}"] if isinstance(self, Sized) else []

    def _repr_fields(self) -> list[tuple[str, Any]]:
        return [(one.name, getattr(self, one.name)) for one in fields(self) if one.repr]  # type: ignore[arg-type]

    def _compared_values(self) -> list[Any]:
        return [getattr(self, one.name) for one in fields(self) if one.compare]  # type: ignore[arg-type]


def _describe(value: object) -> str:
    """The dtype and shape of an array, and its library unless that is NumPy; the repr of anything else."""
    dtype, shape = dtype_of(value), getattr(value, "shape", ())
    if dtype is None or not shape:
        return repr(value)
    home = type(value).__module__.partition(".")[0]
    return f"{dtype}{list(shape)}{'' if home == 'numpy' else f' of {home}'}"


def _first_values(value: Array) -> str:
    if not getattr(value, "shape", ()):
        return repr(value)
    first = on_host(value.reshape(-1)[: SHOWN_VALUES + 1]).tolist()
    return ", ".join([*map(str, first[:SHOWN_VALUES]), *(["…"] if len(first) > SHOWN_VALUES else [])])


def _equal(one: Array, other: Array) -> bool:
    one, other = on_host(one), on_host(other)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


class _ByOffset(Arrays):
    """Rows of unequal length, which `offset` cuts out of the other arrays; equal if all rows are equal."""

    offset: Array

    def __len__(self) -> int:
        return len(self.offset) - 1

    @property
    def lengths(self) -> Array:
        """int64 [n]: the number of values of each row."""
        return self.offset[1:] - self.offset[:-1]  # for few rows in a fifth of the time of numpy.diff

    def _compared_values(self) -> list[Array]:
        first, last = int(self.offset[0]), int(self.offset[-1])
        others = [value for value in super()._compared_values() if value is not self.offset]
        return [self.offset - first, *(value[first:last] for value in others)]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SketchResult:
    """The result of a sketch, its `maker`: no other sketch estimates from it; without a maker, any may."""

    maker: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Rows(_ByOffset):
    """Compressed rows; the subclasses TextBatch, Tokens and Fingerprints check that the values have their `kind`."""

    kind: ClassVar[type[np.generic] | None] = None

    values: Array
    offset: Array

    def __post_init__(self) -> None:
        if self.kind is not None:
            _check(self, "values", self.values, self.kind, 1)
            _check_offset(self, self.values)

    def slice(self, start: int, stop: int) -> Self:
        """Rows [start, stop) as a view, which shares `values`."""
        return self.with_values(self.values, self.offset[start : stop + 1])

    def with_values(self, values: Array, offset: Array) -> Self:
        """Other rows of the same kind."""
        return type(self)(values, offset)

    def moved(self, asarray: Callable[[Array], Array]) -> Self:
        """The rows in other memory, by `asarray`; checks offsets that come from a device."""
        values, offset = asarray(self.values), asarray(self.offset)
        if values is self.values and offset is self.offset and isinstance(offset, np.ndarray):
            return self
        there = self.with_values(values, offset)
        if not isinstance(there.offset, np.ndarray):
            _check_ascends(self, there.offset, there.values)
        return there


@dataclass(frozen=True, eq=False, repr=False)
class TextBatch(Rows):
    """Documents as UTF-8: `values` uint8 [bytes], `offset` int64 [n + 1]. A null document is an empty row.

    Raises ParameterError for arrays of other types, and offsets that do not ascend within the bytes.

    >>> TextBatch(np.frombuffer(b"one texttwo", np.uint8), np.array([0, 8, 11]))
    TextBatch(2 rows, values=uint8[11], offset=int64[3])
    """

    kind = np.uint8


@dataclass(frozen=True, eq=False, repr=False)
class Tokens(Rows):
    """Tokens as 64-bit hashes, in text order: `values` uint64 [nnz], `offset` int64 [n + 1]."""

    kind = np.uint64


@dataclass(frozen=True, eq=False, repr=False)
class Fingerprints(Rows):
    """Shingles as 64-bit hashes: `values` uint64 [nnz], `offset` int64 [n + 1].

    `gpulsh.shingle` makes them from texts, and `gpulsh.fingerprint` from sets of numbers, str or bytes. Sketches treat
    fingerprints as random numbers.
    Raises ParameterError for arrays of other types, and offsets that do not ascend within the values.

    >>> hashes = np.array([0x5F3759DF9E3779B9, 0x2545F4914F6CDD1D, 0x9E3779B97F4A7C15], np.uint64)
    >>> rows = Fingerprints(hashes, np.array([0, 2, 3]))
    >>> rows == Fingerprints(np.append(hashes[:1], hashes), np.array([1, 3, 4]))
    True
    """

    kind = np.uint64


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Rows, SketchResult):
    """Samples of sets of fingerprints: `values` uint64 [nnz], each row ascending, `offset` int64 [n + 1].

    `BottomS` and `ModM` make them. Raises ParameterError as `Fingerprints` does.

    >>> len(Samples(np.array([3, 5, 4], np.uint64), np.array([0, 2, 3])))
    2
    """

    kind = np.uint64


@dataclass(frozen=True, eq=False, repr=False)
class WeightedFingerprints(_ByOffset):
    """Weighted sets: uint64 `values` [nnz], distinct and ascending within a row, with float64 `weight` [nnz] above 0.

    `offset` int64 [n + 1] cuts both into rows. `gpulsh.weigh` makes them. Raises ParameterError for other arrays.

    >>> WeightedFingerprints(np.array([3, 9], np.uint64), np.array([0.5, 2.0]), np.array([0, 1, 2]))
    WeightedFingerprints(2 rows, values=uint64[2], weight=float64[2], offset=int64[3])
    """

    values: Array
    weight: Array
    offset: Array

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint64, 1)
        _check(self, "weight", self.weight, np.float64, 1)
        _check_offset(self, self.values)
        if len(self.weight) != len(self.values):
            raise ParameterError(
                f"{type(self).__name__} has {len(self.values)} values and {len(self.weight)} weights; give a weight"
                " for each value"
            )
        if all(isinstance(array, np.ndarray) for array in (self.values, self.weight, self.offset)):
            self._check_rows()

    def moved(self, asarray: Callable[[Array], Array]) -> Self:
        """The rows in other memory, by `asarray`; checks rows that come from a device."""
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


@dataclass(frozen=True, eq=False, repr=False)
class _Matrix(Arrays):
    """One row per document, of 64-bit words unless a subclass says otherwise; libraries take it as an array."""

    values: Array

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint64, 2)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `values`."""
        return tuple(self.values.shape)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of `values`, as NumPy names it."""
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


@dataclass(frozen=True, eq=False, repr=False)
class Signatures(_Matrix, SketchResult):
    """Signatures: `values` uint32 or, by the family `affine61`, uint64 [n, num_perm]; all ones where a set is empty.

    Libraries take it as an array. Raises ParameterError for values of another type or shape.

    >>> stored = Signatures(np.array([[1, 3, 6], [1, 3, 7]], np.uint32))
    >>> stored, stored[1].tolist()
    (Signatures(2 rows, values=uint32[2, 3]), [1, 3, 7])
    """

    def __post_init__(self) -> None:
        _check(self, "values", self.values, np.uint64 if dtype_of(self.values) == np.uint64 else np.uint32, 2)


@dataclass(frozen=True, eq=False, repr=False)
class PackedSignatures(_Matrix, SketchResult):
    """Signatures of few bits per value: `values` uint64 [n, ceil(num_perm * bits / 64)], the first value lowest.

    `BBit` makes them, and libraries take them as an array. Raises ParameterError as `Signatures` does.

    >>> PackedSignatures(np.zeros((2, 4), np.uint64)).shape
    (2, 4)
    """


@dataclass(frozen=True, eq=False, repr=False)
class BandDigests(_Matrix):
    """Digests of signature bands: `values` uint64 [n, bands]; 2^64 - 1 means *no digest*.

    `Banding` and `BitSampling` make them, and libraries take them as an array. Raises ParameterError as `Signatures`
    does.

    >>> BandDigests(np.array([[5, 7], [5, 8]], np.uint64)).dtype
    dtype('uint64')
    """


@dataclass(frozen=True, eq=False, repr=False)
class BitSignatures(_Matrix, SketchResult):
    """Signatures of bits: `values` uint64 [n, bits / 64], bit i of a row being bit i % 64 of its word i // 64.

    `SimHash` and `Hyperplanes` make them, and libraries take them as an array. Raises ParameterError as `Signatures`
    does.

    >>> np.asarray(BitSignatures(np.array([[7], [15]], np.uint64))).shape
    (2, 1)
    """


@dataclass(frozen=True, eq=False, repr=False)
class _Ids(_ByOffset):
    """Rows of documents' numbers."""

    ids: Array
    offset: Array

    def __post_init__(self) -> None:
        _check(self, "ids", self.ids, np.int64, 1)
        _check_offset(self, self.ids)


@dataclass(frozen=True, eq=False, repr=False)
class Buckets(_Ids):
    """Documents that share a band digest: `ids` int64 end to end, `offset` int64 [buckets + 1], two ids or more each.

    Buckets ascend by digest and ids ascend within a bucket.
    """


@dataclass(frozen=True, eq=False, repr=False)
class Neighbours(_Ids):
    """The neighbours of each query: `ids` int64 end to end, `offset` int64 [queries + 1]; ids ascend within a row."""


@dataclass(frozen=True, eq=False, repr=False)
class SignedBatch(Arrays):
    """The signed documents of a batch."""

    digests: Array  # uint64 [n, bands]
    exact: Array  # uint64 [n, 2], the 128-bit hash of the token sequence
    shingles: Array  # int64 [n], shingles with repeats; 0 for an empty document

    def __post_init__(self) -> None:
        _check(self, "digests", self.digests, np.uint64, 2)
        _check(self, "exact", self.exact, np.uint64, 2)
        _check(self, "shingles", self.shingles, np.int64, 1)

    @classmethod
    def concat(cls, parts: Sequence[SignedBatch]) -> SignedBatch:
        """The documents of all parts; a single part itself."""
        columns = zip(*((part.digests, part.exact, part.shingles) for part in parts), strict=True)
        return parts[0] if len(parts) == 1 else cls(*map(np.concatenate, columns))
