"""What was found or made of late, by what it was made of: a little memory in place of doing it again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most `most` values, of which the oldest gives way. Several threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """The value of that key, if it is still known."""
        return self._known.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Know it from now on."""
        for other in list(self._known)[: max(len(self._known) - self._most + 1, 0)]:
            self._known.pop(other, None)
        self._known[key] = value

    def of(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of that key, which `make` gives where it is not known."""
        found = self._known.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def forget(self, which: Callable[[Key], bool]) -> None:
        """Those keys for which `which` says so."""
        for key in list(filter(which, list(self._known))):
            self._known.pop(key, None)
