"""Keys of documents: strings or integers, one kind in an index, each once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Values, whole_column
from gpulsh.checks import shown, shown_type
from gpulsh.errors import GpulshError, ParameterError
from gpulsh.index.segment import KEY_TYPES, Keys
from gpulsh.io.arrow.validation import check_arrow
from gpulsh.ragged import hash_order, sorted_distinct

HASHED_AT_ONCE = 1 << 16  # strings
NO_KEYS = {kind: pa.array([], arrow) for kind, arrow in KEY_TYPES.items()}


def checked_keys(keys: object, name: str = "keys") -> tuple[pa.Array, str | None]:
    """Keys as a pyarrow.Array of large_string or int64, and their kind, None if there is no key."""
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable) or getattr(keys, "shape", None) == ():
        raise ParameterError(f"{name} is {shown_type(keys)}; give a list of strings or integers")
    if isinstance(keys, (pa.Array, pa.ChunkedArray)):
        check_arrow(keys, name, utf8=True)
        types, arrow, kind = pa.types, keys.type, None
        if types.is_string(arrow) or types.is_large_string(arrow):
            kind = "string"
        elif types.is_integer(arrow) and arrow != pa.uint64():
            kind = "integer"
        if kind is not None and keys.null_count == 0 and len(keys):
            array = keys if arrow == KEY_TYPES[kind] else keys.cast(KEY_TYPES[kind])
            return (array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array), kind
        given = keys.to_pylist()
    else:
        given = keys.tolist() if isinstance(keys, np.ndarray) else list(whole_column(keys))
    if not given:
        return pa.array([], pa.large_string()), None
    kind = "string" if isinstance(given[0], str) else "integer"
    if kind == "integer":
        given = [int(key) if isinstance(key, np.integer) else key for key in given]
    wanted = str if kind == "string" else int
    for place, key in enumerate(given):
        if not isinstance(key, wanted) or isinstance(key, bool):
            raise ParameterError(f"{name}[{place}] is {shown(key)}; give only strings or only integers in one index")
    try:
        return pa.array(given, KEY_TYPES[kind]), kind
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
        allowed = "give UTF-8 strings, or integers from -2^63 to 2^63 - 1"
        raise ParameterError(f"{name} cannot be stored: {error}; {allowed}") from None


def key_kind(keys: pa.Array) -> str:
    """The kind of an array of keys."""
    return "integer" if pa.types.is_integer(keys.type) else "string"


def parsed_keys(named: Sequence[str], kind: str | None) -> list[str | int]:
    """Keys that are given as text; ParameterError if keys of `kind` are integers and one is not."""
    if kind != "integer":
        return list(named)
    for key in named:
        if re.fullmatch("-?[0-9]{1,19}", key) is None:
            raise ParameterError(f"a key is {key!r}, and the index has integer keys; give integers")
    return [int(key) for key in named]


def sorted_keys(keys: pa.Array) -> Keys:
    """Keys [n], ready to be looked up by 64 bits of each: BLAKE2b of a string's UTF-8, an integer itself."""
    if pa.types.is_integer(keys.type):
        hashes = keys.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    else:
        hashes = np.empty(len(keys), np.uint64)
        for start in range(0, len(keys), HASHED_AT_ONCE):
            texts = keys.slice(start, HASHED_AT_ONCE).to_pylist()
            digests = b"".join([hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts])
            hashes[start : start + len(texts)] = np.frombuffer(digests, "<u8")
    order = hash_order(hashes)
    return Keys(keys, hashes[order], order)


@dataclass(frozen=True)
class KeyNames:
    """How errors name keys: the place of a number, its key, and the remedies for one in the index, or given twice."""

    place: Callable[[int], str] = "keys[{}]".format
    its_key: str = ""
    remedy: str = "remove it first, or give another"
    repeat_remedy: str = "give each document its own key"
    error: type[GpulshError] = ParameterError


NAMES = KeyNames()


def refuse_repeats(known: Keys, start: int, names: KeyNames) -> None:
    """The error of `names` if a key comes twice; messages count from key number `start`."""
    alike = np.flatnonzero(known.key_hash[1:] == known.key_hash[:-1])
    if len(alike) == 0:
        return
    seen: dict[str | int, int] = {}
    for place in sorted_distinct(known.key_row[np.concatenate([alike, alike + 1])]).tolist():  # with a common hash
        key = known.key[place].as_py()
        if seen.setdefault(key, place) != place:
            raise same_key(start + place, key, start + seen[key], names)


def same_key(place: int, key: str | int, first: int, names: KeyNames) -> GpulshError:
    """The error of a key that comes twice."""
    given = f"{names.place(place)}{names.its_key} is {key!r}"
    return names.error(f"{given}, the same as {names.place(first)}; {names.repeat_remedy}")


class KeyStream:
    """Keys of one kind that arrive in pieces of any length and are taken in others."""

    def __init__(self, pieces: Iterable[object], kind: str | None) -> None:
        self.kind = kind  # of all keys; None before the first
        self._pieces = iter(pieces)
        self._left = NO_KEYS[kind or "string"]

    def take(self, count: int) -> pa.Array:
        """The next `count` keys; ParameterError if a piece is of another kind."""
        parts = [self._left] if len(self._left) else []
        known = len(self._left)
        while known < count:
            array, kind = checked_keys(next(self._pieces))
            if kind is not None:
                refuse_kind(kind, self.kind)
                self.kind = kind
                parts.append(array)
                known += len(array)
        whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else self._left
        self._left = whole.slice(count)
        return whole.slice(0, count)


def refuse_kind(kind: str, own: str | None) -> None:
    """ParameterError if an index has keys of another kind."""
    if own not in (None, kind):
        raise ParameterError(f"keys are of kind {kind}, and the index has keys of kind {own}; give {own} keys")


def as_numpy(keys: pa.Array) -> Values:
    """Keys as int64 [n], or an object array of str."""
    if pa.types.is_integer(keys.type):
        return keys.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    out = np.empty(len(keys), object)
    out[:] = keys.to_pylist()
    return out
