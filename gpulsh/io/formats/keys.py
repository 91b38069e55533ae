"""What `--keep COLUMN` orders by in formats whose values have no type but their own."""

from __future__ import annotations

import pyarrow as pa

from gpulsh.errors import InputError, InputTypeError
from gpulsh.io.file import File
from gpulsh.io.format import Keys

Key = int | float | None


def key_of(file: File, number: int, column: str, value: object, told: str) -> Key:
    """A number, or None; an error that names the record of any other value, of which `told` says what it is."""
    if isinstance(value, float) and value != value:
        raise InputError(
            f"{file.name}: {file.unit} {number}: {column!r} is NaN; make it a number, or null to be kept last"
        )
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    raise InputTypeError(f"{file.name}: {file.unit} {number}: {column!r} is {told}; --keep takes numbers here")


def typed_keys(keys: list[Key]) -> Keys:
    """A pyarrow.Array where one type of 64 bits holds all of them."""
    kinds = {type(key) for key in keys} - {type(None)}
    if kinds == {float}:
        return pa.array(keys, pa.float64())
    if kinds <= {int} and all(key is None or -(2**63) <= key < 2**63 for key in keys):
        return pa.array(keys, pa.int64())
    return keys
