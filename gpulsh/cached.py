"""`cached_value`: a property that is computed once per object, without a lock.

Before Python 3.12, `functools.cached_property` takes a lock that all objects of a class share. So threads wait for one
another, and a process forked while another thread has the lock waits forever.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    cached_value = cached_property
else:

    class cached_value(cached_property):
        """Threads that ask at the same time may all compute the value, which must be equal."""

        def __get__(self, instance: object, owner: Any = None) -> Any:
            # The first value stays: it takes precedence over this descriptor, which has no __set__.
            return self if instance is None else vars(instance).setdefault(self.attrname, self.func(instance))
