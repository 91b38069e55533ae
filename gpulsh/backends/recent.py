"""What was found or made of late, by what it was made of: a little memory in place of doing it again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most `most` values, of which the one that was used longest ago gives way. Several threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Key, Value] = {}
        self._changing = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Key) -> Value | None:
        """The value of that key, if it is still known."""
        with self._changing:
            if key not in self._known:
                return None
            value = self._known[key] = self._known.pop(key)  # behind all others
            return value

    def put(self, key: Key, value: Value) -> None:
        """Know it from now on."""
        with self._changing:
            self._known.pop(key, None)
            self._known[key] = value
            if len(self._known) > self._most:
                del self._known[next(iter(self._known))]

    def of(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of that key, which `make` gives where it is not known."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def forget(self, which: Callable[[Key], bool]) -> None:
        """Those keys for which `which` says so."""
        with self._changing:
            for key in list(filter(which, self._known)):
                del self._known[key]
