"""`LruCache`: a few values by their keys, for several threads."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """At most `size` values; a further one replaces the least recently used. Several threads may share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: dict[Key, Value] = {}  # least recently used first
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """The value of the key; None where it has none."""
        with self._lock:
            if key not in self._values:
                return None
            value = self._values[key] = self._values.pop(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        """Give the key a value."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > self._size:
                del self._values[next(iter(self._values))]

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of the key; a missing one is made."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def remove(self, chosen: Callable[[Key], bool]) -> None:
        """Remove the keys for which `chosen` is true."""
        with self._lock:
            for key in list(filter(chosen, self._values)):
                del self._values[key]
