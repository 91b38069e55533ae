"""`cached_value`: a property that is computed once per object, without a lock.

Until Python 3.12, `functools.cached_property` takes a lock that all objects of a class share: threads wait for each
other, and a process that is forked while another thread holds it waits forever.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar, overload

Value = TypeVar("Value")


class cached_value(cached_property[Value]):
    """As `functools.cached_property`. Threads that ask at the same time may all compute the value: it must be equal."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> cached_value[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Value: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> cached_value[Value] | Value:
        if instance is None:
            return self
        assert self.attrname is not None  # `__set_name__` was called
        # The first value stays: it takes precedence over this descriptor, which has no __set__.
        return vars(instance).setdefault(self.attrname, self.func(instance))  # type: ignore[no-any-return]
