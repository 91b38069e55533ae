"""The largest document or row in a memory budget, and the errors of larger ones, which name a sufficient budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.errors import LargeDocumentError
from gpulsh.io.file import File

COPIES = 4  # of the largest document, which fit into a memory budget
MIN_MEMORY = 512 << 20  # bytes of a budget, below which hardly anything but the program fits


@dataclass(frozen=True)
class Limit:
    """The limits of a memory budget. A document may take a quarter of each reader's share: reading and comparing
    hold a few copies of it.
    """

    memory: int  # bytes, of the whole run
    readers: int = 1  # concurrent ones

    @property
    def document(self) -> int:
        """The most bytes that a document may have."""
        return self.memory // (COPIES * self.readers)


def too_large(file: File, place: str, size: int, limit: Limit) -> LargeDocumentError:
    """The error of a document of `size` bytes at `place` in the file, which is empty for a file of one document."""
    return LargeDocumentError(
        f"{file.name}: {place and place + ': '}has {size} bytes; a memory budget of {exact_size(limit.memory)} allows"
        f" documents up to {exact_size(limit.document)}: give --memory {_sufficient_budget(COPIES * size)} or more"
    )


def too_costly(file: File, place: str, need: int, allowed: int, limit: Limit) -> LargeDocumentError:
    """The error of a place that takes about `need` bytes to read, where only `allowed` bytes may be used."""
    return LargeDocumentError(
        f"{file.name}: {place}: about {need} bytes to read; a memory budget of {exact_size(limit.memory)} allows"
        f" {exact_size(allowed)}: give --memory {_sufficient_budget(-(-need * limit.memory // allowed))} or more"
    )


class CostError(Exception):
    """Parsing would take about `size` more bytes. Tried: without memory, orjson and Resiliparse end the process."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def check_sizes(file: File, start: int, sizes: Numbers, limit: Limit | None, unit: str = "row") -> None:
    """A LargeDocumentError if a row has more bytes than the limit allows; `unit` counts the first one as `start`."""
    if limit is not None and len(sizes) and int(sizes.max()) > limit.document:
        row = int(np.argmax(sizes > limit.document))
        raise too_large(file, f"{unit} {start + row}", int(sizes[row]), limit)


def exact_size(size: int) -> str:
    """A number of bytes in the largest unit that gives a whole number.

    >>> exact_size(3 << 29)
    '1536MiB'
    """
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size} bytes"


def _sufficient_budget(size: int) -> str:
    """A round budget of at least `size` bytes."""
    size = max(size, MIN_MEMORY)
    if size <= 1000 << 20:
        return f"{-(-size // (50 << 20)) * 50}MiB" if size > MIN_MEMORY else exact_size(size)
    halves = -(-size // (512 << 20))
    return f"{halves // 2}{'.5' if halves % 2 else ''}GiB"
