"""What operations ask for again and again, and is small: uploaded once, for all streams of a device."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import ModuleType
from typing import Generic, TypeVar

from gpulsh.backends.cuda.waiting import wait

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Uploads(Generic[Key, Made]):
    """Arrays on a device by what they are made of; the last few."""

    KEPT = 8

    def __init__(self, arrays: ModuleType) -> None:
        self._arrays = arrays
        self._known: dict[Key, Made] = {}

    def of(self, key: Key, make: Callable[[], Made]) -> Made:
        """What `make` gave for `key`."""
        found = self._known.get(key)
        if found is None:
            while len(self._known) >= self.KEPT:
                del self._known[next(iter(self._known))]
            found = make()
            wait(self._arrays)  # later calls may use other streams
            self._known[key] = found
        return found

    def forget(self, which: Callable[[Key], bool]) -> None:
        """Those keys for which `which` says so."""
        for key in list(filter(which, self._known)):
            del self._known[key]
