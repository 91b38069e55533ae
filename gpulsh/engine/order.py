"""`--keep`: which of two duplicates is first, hence kept."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.errors import InputError, ParameterError
from gpulsh.io.buffers import null_mask, numbers

RESERVED = ("first", "longest")
SOURCE = "source:"


def key_column(keep: object) -> str | None:
    """The column that `keep` names, None for `first`, `longest` and `source:...`.

    `column:NAME` names one with a reserved name.
    """
    if keep in RESERVED or (isinstance(keep, str) and keep.startswith(SOURCE)):
        return None
    name = keep.removeprefix("column:") if isinstance(keep, str) else ""
    if not name:
        raise ParameterError(f"keep is {keep!r}; give first, longest, source:INPUT,INPUT... or the name of a column")
    return name


def source_ranks(keep: str, inputs: Sequence[str]) -> dict[str, int] | None:
    """For `source:A,B,...` the place of each INPUT: those listed as listed, then the others; None for other policies.

    An INPUT is listed as it was given or by its last name. ParameterError where a name means none of them, or several.
    """
    if not keep.startswith(SOURCE):
        return None
    ranks: dict[str, int] = {}
    for name in keep.removeprefix(SOURCE).split(","):
        meant = [given for given in inputs if name in (given, os.path.basename(given.rstrip("/")))]
        if len(meant) != 1 or meant[0] in ranks:
            what = "one that was listed before" if len(meant) == 1 else f"{len(meant)} INPUTs"
            raise ParameterError(f"keep is {keep!r} and {name!r} means {what}; the INPUTs are: {', '.join(inputs)}")
        ranks[meant[0]] = len(ranks)
    return {given: ranks.get(given, len(ranks)) for given in inputs}


def by_source(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 [n]: positions by the rank of their source, ties by position."""
    return np.argsort(ranks, kind="stable").astype(np.int64, copy=False)


def longest_first(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 [n]: positions by bytes of text, longest first, ties by position."""
    return np.argsort(-sizes, kind="stable").astype(np.int64, copy=False)


def highest_first(blocks: Sequence[Any], column: str, where: Callable[[int], str]) -> NDArray[np.int64]:
    """int64 [n]: positions by key, highest first, null last, ties by position; compared in the keys' own type.

    `blocks` are pyarrow arrays or lists of Python numbers, end to end. `where` names a position in messages. Raises
    InputError at a NaN and where the blocks' types do not compare.
    """
    kinds = {block.type if isinstance(block, pa.Array) else None for block in blocks}
    kinds = {kind for kind in kinds if kind is None or not pa.types.is_null(kind)}
    if not kinds:
        return np.arange(sum(map(len, blocks)), dtype=np.int64)
    if len(kinds) == 1 and None not in kinds:
        (kind,) = kinds
        return _sorted_array([block.cast(kind) for block in blocks], column, where)
    numeric = all(kind is None or pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)
    if not numeric:
        told = " and ".join(sorted(str(kind) for kind in kinds))
        raise InputError(f"column {column!r} is {told} in different files; make it one type")
    return _sorted_numbers(blocks, column, where)


def _sorted_array(blocks: Sequence[Any], column: str, where: Callable[[int], str]) -> NDArray[np.int64]:
    masks = [null_mask(block) for block in blocks]
    null = np.concatenate(
        [np.zeros(len(block), np.bool_) if mask is None else mask for block, mask in zip(blocks, masks, strict=True)]
    )
    present = np.flatnonzero(~null)
    values = np.concatenate([_as_numbers(block) for block in blocks])[present]
    if values.dtype.kind == "f":
        strange = np.flatnonzero(np.isnan(values))
        if len(strange):
            raise _not_a_number(column, where(int(present[strange[0]])))
        descending = -values
    else:
        descending = ~values  # reverses the order of signed and unsigned integers alike, without overflow
    ordered = present[np.argsort(descending, kind="stable")]
    return np.concatenate([ordered, np.flatnonzero(null)]).astype(np.int64, copy=False)


def _as_numbers(keys: Any) -> NDArray[Any]:
    if pa.types.is_temporal(keys.type):  # dates and times are integers below
        keys = keys.view(pa.int32() if keys.type.bit_width == 32 else pa.int64())
    return numbers(keys)


def _sorted_numbers(blocks: Sequence[Any], column: str, where: Callable[[int], str]) -> NDArray[np.int64]:
    # Integers and floats among each other: Python compares them exactly, NumPy would round integers to float64.
    keys: list[int | float | None] = []
    for block in blocks:
        keys += block.to_pylist() if isinstance(block, pa.Array) else block
    for place, key in enumerate(keys):
        if isinstance(key, float) and math.isnan(key):
            raise _not_a_number(column, where(place))
    present = [place for place, key in enumerate(keys) if key is not None]
    present.sort(key=lambda place: keys[place], reverse=True)  # type: ignore[arg-type, return-value]
    absent = [place for place, key in enumerate(keys) if key is None]
    return np.array(present + absent, np.int64)


def _not_a_number(column: str, where: str) -> InputError:
    return InputError(f"{where}: column {column!r} is NaN; make it a number, or null to be kept last")
