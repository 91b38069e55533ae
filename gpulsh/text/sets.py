"""`gpulsh.fingerprint`: the fingerprints of sets that are not text, such as the items of customers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.hashing import mix64
from gpulsh.backends.protocol import GOLDEN, LENGTH, STREAM_ITEM
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import plural, shown, shown_type
from gpulsh.errors import InputTypeError, ParameterError, first_line
from gpulsh.ragged import concat_rows, offsets, row_ranges, run_places

if TYPE_CHECKING:
    import pyarrow as pa

ALLOWED = "give a list of sets, or an Arrow array of lists, each of integers, of str or of bytes"
BYTES_AT_ONCE = 1 << 16  # of items; their products stay in the second-level cache
_U = np.uint64
_STREAM, _GOLDEN, _LENGTH = _U(STREAM_ITEM), _U(GOLDEN), _U(LENGTH)


def fingerprint(sets: object, *, backend: BackendName = "auto", threads: int | None = None) -> Fingerprints:
    """The 64-bit fingerprints of sets of any items: customers, products, n-grams of your own.

    `sets` is a list of lists, tuples, sets or arrays, or any Arrow array of lists. The items of all sets are integers
    from -2^63 to 2^64 - 1, or str, or bytes. A str is the same item as its UTF-8 bytes, and a negative number x the
    same as 2^64 + x. A set that is None is empty. Returns Fingerprints: `values` uint64 [nnz], each row ascending and
    without repeats, `offset` int64 [n + 1], on the backend's device.

    Sketches of sets treat fingerprints as random numbers, so this function hashes the items. With mix64 and key of
    `gpulsh.backends.protocol`, modulo 2^64, the fingerprint of an integer x is mix64(x * GOLDEN + STREAM_ITEM), which
    no two integers share. The fingerprint of bytes is mix64(sum over p of key(STREAM_ITEM, p) * byte_p + (length + 1) *
    LENGTH). They are public hashes, like `gpulsh.shingle`'s.

    Raises InputTypeError for other sets and items, and if an item is null.

    >>> baskets = fingerprint([[7, 8, 9], {8, 9, 7}, [7, 8, 10], None], backend="cpu")
    >>> baskets.offset
    array([0, 3, 6, 9, 9])
    >>> from gpulsh.lsh.similarity import jaccard
    >>> jaccard(baskets, [[0, 1], [0, 2]], backend="cpu")
    array([1. , 0.5])
    """
    ops = select_backend(backend, threads=threads)
    hashed = concat_rows([Fingerprints(_hashes(items), offset) for items, offset in item_parts(sets)])
    with ops.use_device():
        return ops.unique(hashed.moved(ops.asarray))


def numbered_sets(sets: object, count: int) -> list[NDArray[np.int64]]:
    """The numbers of each set; raises an error for a number outside 0 to `count` - 1."""
    import pyarrow as pa

    from gpulsh.io.arrow.buffers import number_values

    rows = []
    for items, offset in item_parts(sets):
        if len(items) and not pa.types.is_integer(items.type):
            raise InputTypeError(f"sets holds items of Arrow type {items.type}; give integers, the numbers of elements")
        found = number_values(items) if len(items) else np.empty(0, np.int64)
        if len(found) and not 0 <= int(found.min()) <= int(found.max()) < count:
            raise ParameterError(
                f"sets holds elements from {found.min()} to {found.max()}; functions has {count}, numbered from 0"
            )
        rows += np.split(found.astype(np.int64), offset[1:-1]) if len(offset) > 1 else []
    return rows


def item_parts(sets: object) -> Iterator[tuple[pa.Array, Numbers]]:
    """The items of some sets end to end, and the offset of each set."""
    import pyarrow as pa

    if isinstance(sets, type):
        raise InputTypeError(f"sets is {shown_type(sets)}; {ALLOWED}")
    if isinstance(sets, pa.ChunkedArray):
        column = sets
    elif hasattr(sets, "__arrow_c_stream__"):
        column = pa.chunked_array(sets)
    elif hasattr(sets, "__arrow_c_array__"):
        column = pa.chunked_array([sets if isinstance(sets, pa.Array) else pa.array(sets)])
    elif not _several(sets) or isinstance(sets, (set, frozenset)):  # a set of sets has no order
        raise InputTypeError(f"sets is of type {type(sets).__name__}; {ALLOWED}")
    else:
        yield _from_python(sets)
        return
    yield from map(_from_arrow, column.chunks or [pa.array([], column.type)])


def _from_arrow(column: pa.Array) -> tuple[pa.Array, Numbers]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from gpulsh.io.arrow.buffers import number_values, plain_values
    from gpulsh.io.arrow.validation import check_arrow

    kind, types = column.type, pa.types
    if types.is_null(kind):  # of sets that are all None
        return pa.nulls(0), np.zeros(len(column) + 1, np.int64)
    lists = types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view
    if not any(is_list(kind) for is_list in lists):
        raise InputTypeError(f"sets is of Arrow type {kind}; {ALLOWED}")
    check_arrow(column, "sets")
    items = plain_values(column.flatten())  # without items under null rows
    _check_nulls(items)
    lengths = pc.list_value_length(column).fill_null(0)
    return items, offsets(number_values(lengths))


def _from_python(sets: Iterable[object]) -> tuple[pa.Array, Numbers]:
    import pyarrow as pa

    rows = [_row(number, row) for number, row in enumerate(sets)]
    flat, offset = list(chain.from_iterable(rows)), offsets([len(row) for row in rows])
    kinds = set(map(type, flat))
    try:
        items = pa.array(flat)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, OverflowError) or all(issubclass(kind, (int, np.integer)) for kind in kinds):
            items = pa.array([_modulo_64(item) for item in flat], pa.uint64())  # Arrow mixes no integer types of NumPy
        else:
            raise InputTypeError(
                f"sets holds an item that is not valid: {first_line(error)}; {ALLOWED}, all of one kind"
            ) from error
    if np.bool_ in kinds:  # Arrow makes integers of them among integers
        raise InputTypeError(f"sets holds items of type bool; {ALLOWED}")
    _check_nulls(items)
    return items, offset


def _modulo_64(item: object) -> int:
    """An integer modulo 2^64."""
    if isinstance(item, bool) or not isinstance(item, (int, np.integer)) or not -(1 << 63) <= item < 1 << 64:
        raise InputTypeError(f"sets holds {shown(item)} among integers; give integers from -2^63 to 2^64 - 1")
    return int(item) & (1 << 64) - 1


def _check_nulls(items: pa.Array) -> None:
    if items.null_count:
        nulls = plural(items.null_count, "null item")
        raise InputTypeError(f"sets holds {nulls}; drop all nulls, or give a null for an empty set")


def _row(number: int, row: Any) -> list[Any]:
    if row is None:
        return []
    if not _several(row):
        raise InputTypeError(f"set {number} is {shown(row)}; give a list or set of items, or texts to gpulsh.shingle")
    # Of times in some units, tolist() would make integers.
    return list(row.tolist() if isinstance(row, np.ndarray) and row.dtype.kind not in "mM" else row)


def _several(value: object) -> TypeGuard[Iterable[Any]]:
    one = isinstance(value, (str, bytes, dict)) or getattr(value, "shape", None) == ()
    return isinstance(value, Iterable) and not one


def _hashes(items: pa.Array) -> NDArray[np.uint64]:
    import pyarrow as pa

    from gpulsh.io.arrow.buffers import number_values

    if pa.types.is_null(items.type):  # of no item
        return np.empty(0, np.uint64)
    if pa.types.is_integer(items.type):
        return np.asarray(mix64(number_values(items).astype(np.uint64) * _GOLDEN + _STREAM))
    try:
        items = items.cast(pa.large_binary())
    except pa.ArrowException as error:
        raise InputTypeError(f"sets holds items of Arrow type {items.type}; {ALLOWED}") from error
    _, offset, content = items.buffers()
    offset = np.frombuffer(offset, np.int64)[items.offset :][: len(items) + 1]
    return _hash_bytes(np.frombuffer(content or b"", np.uint8), offset)


def _hash_bytes(content: NDArray[np.uint8], offset: Numbers) -> NDArray[np.uint64]:
    lengths = np.diff(offset)
    places = np.arange(1, lengths.max(initial=0) + 1, dtype=np.uint64)
    keys = mix64(places * _GOLDEN + _STREAM) | _U(1)
    sums = np.empty(len(lengths), np.uint64)
    for start, stop in row_ranges(offset, BYTES_AT_ONCE):
        first, last = offset[start], offset[stop]
        total = np.zeros(last - first + 1, np.uint64)
        np.cumsum(keys[run_places(lengths[start:stop])] * content[first:last], out=total[1:])
        bounds = total[offset[start : stop + 1] - first]
        sums[start:stop] = bounds[1:] - bounds[:-1]
    return np.asarray(mix64(sums + (lengths.astype(np.uint64) + _U(1)) * _LENGTH))
