"""How much memory something takes, as Python counts it: what libraries allocate themselves is not in it."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """What is done inside takes less than `size` bytes."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()
