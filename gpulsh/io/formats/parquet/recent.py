"""What was found of late, by a key: a little memory in place of a second look. Several threads may share it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """At most `most` values, of which the oldest gives way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Hashable, Value] = {}

    def get(self, key: Hashable) -> Value | None:
        """The value of that key, if it is still known."""
        return self._known.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        """Know it from now on."""
        for other in list(self._known)[: max(len(self._known) - self._most + 1, 0)]:
            self._known.pop(other, None)
        self._known[key] = value
