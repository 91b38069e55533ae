"""Places of texts: the file or URL and the row of each document of a segment. Most keys are places, too: FILE:ROW."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.errors import ParameterError
from gpulsh.io.arrow.buffers import string_array, to_arrow
from gpulsh.io.file import File

NO_SOURCE = (1 << 32) - 1  # instead of a source: only the caller knows the text
STEP = 1 << 18  # keys at once
KEY_TYPE = pa.large_string()


class Source(NamedTuple):
    """A file or URL with texts, and how to read it: everything that a later process needs."""

    name: str  # in keys and messages
    path: str  # absolute, or a URL
    text: str  # as in `io.columns.Columns`
    lines: bool = False
    as_text: bool = False
    delimiter: str | None = None
    encoding: str | None = None
    intact_only: bool = False

    @classmethod
    def of(cls, file: File, text: str) -> Self:
        """From a file of the present run; ParameterError for a stream, which cannot be read again."""
        if file.copied:
            raise ParameterError(
                f"evidence is 'source', and {file.name} is a stream, which cannot be read again; give files"
            )
        inside, archive = file.name.rpartition("::")[::2]  # which may be of this machine
        if file.filesystem is None:
            path = os.path.abspath(file.path)
        else:
            path = f"{inside}::{os.path.abspath(archive)}" if "://" not in archive else file.name
        how = file.lines, file.as_text, file.delimiter, file.encoding, file.intact_only
        return cls(file.name, path, text, *how)


@dataclass(frozen=True)
class Origin:
    """The sources of documents that arrive, and the way from positions to (number of the source, row)."""

    sources: Sequence[Source]
    locate: Callable[[Numbers], tuple[Numbers, Numbers]]


class PlaceColumns(NamedTuple):
    """The columns of the file of places."""

    source: NDArray[np.uint32]  # its number, or NO_SOURCE
    row: Numbers


@dataclass(frozen=True, eq=False)
class Places:
    """Places of n documents; `sources` are all of the index."""

    source: NDArray[np.uint32]  # [n] its number, or NO_SOURCE
    row: Numbers  # [n]
    sources: Sequence[Source]

    def __len__(self) -> int:
        return len(self.source)

    def where(self, rows: NDArray[np.bool_] | Numbers | slice) -> Places:
        """The places of the documents that `rows` chooses, with rows of 64 bits."""
        return Places(self.source[rows], self.row[rows].astype(np.int64, copy=False), self.sources)

    def keys(self) -> pa.Array:
        """The keys FILE:ROW, a pyarrow.Array of large_string; every document must have a source."""
        known, which = np.unique(self.source, return_inverse=True)
        names = string_array([f"{self.sources[number].name}:" for number in known.tolist()])
        return _keys(names.take(to_arrow(which)).cast(KEY_TYPE), self.row)

    def are_keys(self, keys: pa.Array) -> bool:
        """Whether each of the keys [n] is FILE:ROW of its document."""
        if not pa.types.is_large_string(keys.type) or bool((self.source == NO_SOURCE).any()):
            return False
        starts = range(0, len(self), STEP)
        parts = ((self.where(slice(start, start + STEP)).keys(), keys.slice(start, STEP)) for start in starts)
        return all(pc.all(pc.equal(own, given)).as_py() for own, given in parts)


def place_keys(file: str, rows: Numbers) -> pa.Array:
    """The keys FILE:ROW of documents without an id, a pyarrow.Array of large_string."""
    (name,) = string_array([f"{file}:"]).to_pylist()
    return _keys(pa.scalar(name, KEY_TYPE), rows)


def _keys(files: pa.Array | pa.Scalar, rows: Numbers) -> pa.Array:
    return pc.binary_join_element_wise(files, to_arrow(rows).cast(KEY_TYPE), pa.scalar("", KEY_TYPE))


def locator(origin: Origin | None, known: Sequence[Source]) -> tuple[Sequence[Source], Callable[[Numbers], Places]]:
    """The sources of the index, with new ones after the `known`, and the way from positions of documents to places."""
    numbers = {source: number for number, source in enumerate(known)}
    added = () if origin is None else origin.sources
    number = np.array([numbers.setdefault(source, len(numbers)) for source in added], np.uint32)
    sources = tuple(numbers)

    def places(positions: Numbers) -> Places:
        if origin is None:
            nowhere = np.full(len(positions), NO_SOURCE, np.uint32)
            return Places(nowhere, np.zeros(len(positions), np.int64), sources)
        source, row = origin.locate(positions)
        return Places(number[source], row, sources)

    return sources, places
