"""Texts that are Python's str, in a list, a tuple or a NumPy array: encoded some at a time, never all at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Values
from gpulsh.backends.host import utf8
from gpulsh.checks import shown
from gpulsh.errors import InputTypeError
from gpulsh.io.rows import Bytes, Copy, Rows, join_texts, split_batch, text_bytes

GROUP = 4096  # strings that are looked at together
MANY = 64  # strings that are worth a call of compiled code
STEP_BYTES = 16 << 20  # of UTF-8 that is copied together


def string_rows(texts: Sequence[object] | Values, threads: int = 1) -> Rows:
    """The rows of Python strings and nulls; `threads` copy their UTF-8."""
    return _StringRows(texts, threads)


class _StringRows(Rows):
    def __init__(self, texts: Sequence[object] | Values, threads: int) -> None:
        self._texts, self._threads = texts, threads
        self._nulls = 0  # of the latest pass
        self._sizes: Numbers | None = None

    def __len__(self) -> int:
        return len(self._texts)

    def null_rows(self) -> NDArray[np.bool_]:
        return np.fromiter(map(is_null, self._texts), np.bool_, len(self._texts))

    def nulls(self) -> int:
        return self._nulls

    def lengths(self) -> Numbers:
        if self._sizes is None:
            for _ in self.slices(STEP_BYTES):
                pass
        assert self._sizes is not None
        return self._sizes

    def pieces(self, rows: Numbers) -> list[Bytes]:
        return list(encode_texts(self._at(rows), 0)[0])

    def gather(self, rows: Numbers, copy: Copy | None = None) -> TextBatch:
        given = self._at(rows)
        strings, ascii, _ = _strings(given) if len(given) >= MANY else (given, None, 0)
        batch = None if ascii is None else utf8(strings, ascii, 0, 1 << 62, self._threads)
        return batch if batch and len(batch) == len(given) else join_texts(encode_texts(given, 0)[0])

    def slices(self, max_bytes: int) -> Iterator[TextBatch]:
        self._nulls = start = 0
        sizes = np.zeros(len(self._texts), np.int64)
        while start < len(self._texts):
            group = self._texts[start : start + GROUP]
            group = group.tolist() if isinstance(group, np.ndarray) else list(group)
            for batch, nulls in self._batches(group, start, min(max_bytes, STEP_BYTES)):
                sizes[start : start + len(batch)] = batch.lengths
                start += len(batch)
                self._nulls += nulls
                yield from split_batch(batch, max_bytes)
        self._sizes = sizes

    def _at(self, rows: Numbers) -> list[Any]:
        if isinstance(self._texts, np.ndarray):
            strings: list[Any] = self._texts[rows].tolist()
            return strings
        return [self._texts[row] for row in rows.tolist()]

    def _batches(self, group: list[Any], start: int, max_bytes: int) -> Iterator[tuple[TextBatch, int]]:
        """The UTF-8 of a group whose first string is at `start`, and how many more nulls there are."""
        strings, ascii, nulls = _strings(group) if len(group) >= MANY else (group, None, 0)
        at = 0
        while at < len(group):
            batch = None if ascii is None else utf8(strings, ascii, at, max_bytes, self._threads)
            if not batch:  # a lone surrogate, or nulls of other libraries, or few
                count = 1 if ascii is not None else fitting_count(group[at:], max_bytes)
                pieces, more = encode_texts(group[at : at + count], start + at)
                batch, nulls = join_texts(pieces), nulls + more
            yield batch, nulls
            at, nulls = at + len(batch), 0


def _strings(group: list[Any]) -> tuple[list[Any], NDArray[np.bool_] | None, int]:
    """The group with empty strings for None, and how often None is there; None if something else is among them."""
    try:
        return group, np.fromiter(map(str.isascii, group), np.bool_, len(group)), 0
    except TypeError:
        strings = ["" if text is None else text for text in group]
        nulls = sum(text is None for text in group)
    try:
        return strings, np.fromiter(map(str.isascii, strings), np.bool_, len(group)), nulls
    except TypeError:
        return group, None, 0


def is_null(value: object) -> bool:
    """None, NaN of any float type, pandas' NA, or a null Arrow scalar."""
    if value is None:
        return True
    kind = type(value)
    home = kind.__module__.partition(".")[0]
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    if home == "pandas":
        return kind.__name__ == "NAType"
    return home == "pyarrow" and getattr(value, "is_valid", True) is False


def encode_texts(texts: Sequence[object], start: int) -> tuple[list[bytes], int]:
    """UTF-8 of each text, empty where null, and the number of nulls. `start` is the position of the first."""
    try:
        return list(map(str.encode, texts)), 0  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        pass  # nulls, lone surrogates or an error: one by one
    pieces: list[bytes] = []
    nulls = 0
    for place, text in enumerate(texts, start):
        if isinstance(text, str):
            pieces.append(text_bytes(text))
        elif is_null(text):
            pieces.append(b"")
            nulls += 1
        else:
            what = f"{shown(text)} ({type(text).__name__}); give str, or None for a missing text"
            if isinstance(text, (bytes, bytearray, memoryview)):
                what = (
                    f"{type(text).__name__}; give str or None, or an Arrow binary array, whose bytes are taken as UTF-8"
                )
            raise InputTypeError(f"texts[{place}] is {what}")
    return pieces, nulls


def fitting_count(texts: Sequence[object], max_bytes: int) -> int:
    """How many of the first texts have at most `max_bytes` characters together; at least one."""
    held = 0
    for count, text in enumerate(texts):
        held += len(text) if isinstance(text, str) else 0
        if held > max_bytes:
            return max(count, 1)
    return len(texts)
