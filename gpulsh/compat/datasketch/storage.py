"""Tables of an index in memory, with the methods and pickles of datasketch; server storages are refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, KeysView, Mapping
from typing import Any

from gpulsh.errors import ParameterError


class DictListStorage:
    """Lists of values by their key."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._dict: dict[Hashable, Any] = defaultdict(list)
        self.buffer_size = 50000

    def __getitem__(self, key: Hashable) -> Any:
        return self.get(key)

    def __delitem__(self, key: Hashable) -> None:
        self.remove(key)

    def __len__(self) -> int:
        return len(self._dict)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._dict)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._dict

    def keys(self) -> KeysView[Hashable]:
        """All keys."""
        return self._dict.keys()

    def get(self, key: Hashable) -> Any:
        """The values of a key, none if it is absent."""
        return self._dict.get(key, [])

    def getmany(self, *keys: Hashable) -> list[Any]:
        """The values of several keys."""
        return [self.get(key) for key in keys]

    def insert(self, key: Hashable, *vals: object, buffer: bool = False) -> None:
        """Add values to a key."""
        self._dict[key].extend(vals)

    def remove(self, *keys: Hashable, buffer: bool = False) -> None:
        """Forget keys."""
        for key in keys:
            del self._dict[key]

    def remove_val(self, key: Hashable, val: object, buffer: bool = False) -> None:
        """Forget a value of a key."""
        self._dict[key].remove(val)

    def size(self) -> int:
        """How many keys there are."""
        return len(self._dict)

    def itemcounts(self) -> dict[Hashable, int]:
        """How many values each key has."""
        return {key: len(values) for key, values in self._dict.items()}

    def has_key(self, key: Hashable) -> bool:
        """Whether a key is there."""
        return key in self._dict

    def empty_buffer(self) -> None:
        """Does nothing, because nothing was buffered."""

    def add_to_select_buffer(self, keys: Iterable[Hashable]) -> None:
        """Add queries for keys; `collect_select_buffer` answers all."""
        self.__dict__.setdefault("_selected", []).extend(keys)

    def collect_select_buffer(self) -> list[Any]:
        """The values of each queried key."""
        return self.getmany(*self.__dict__.pop("_selected", []))


class DictSetStorage(DictListStorage):
    """Sets of values by their key."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._dict = defaultdict(set)

    def get(self, key: Hashable) -> Any:
        """The values of a key, none if it is absent."""
        return self._dict.get(key, set())

    def insert(self, key: Hashable, *vals: object, buffer: bool = False) -> None:
        """Add values to a key."""
        self._dict[key].update(vals)


def check_in_memory(storage_config: Mapping[str, Any] | None) -> None:
    """ParameterError for tables outside of this process."""
    kind = (storage_config or {}).get("type", "dict")
    if kind != "dict":
        raise ParameterError(
            f"storage_config has the type {kind!r}, and gpulsh keeps tables in memory only; leave it out, or use"
            " datasketch itself, or gpulsh.Index for an index in files"
        )
