"""Files made to take long: the work grows with their size, whatever they hold. The limits are a tenth or less of what
work that grows with the square of the size takes, and ten times what was measured.
"""

from __future__ import annotations

import gzip
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gpulsh.io.warc_records import warc_records


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def record(content: bytes = b"x", headers: bytes = b"") -> bytes:
    head = b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Type: text/plain\r\n" + headers
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content + b"\r\n\r\n"


def lying(length: int, count: int) -> bytes:
    return b"WARC/1.0\r\nContent-Length: %d\r\n\r\n" % length * count


# name: (the file, compressed, records, broken stretches, seconds)
ARCHIVES: dict[str, tuple[Callable[[], bytes], bool, int, int, float]] = {
    "headers of one name": (lambda: record(headers=b"a:\r\n" * 60_000), False, 1, 0, 1),
    "a header of many lines": (lambda: record(headers=b"a: b\r\n" + b" c\r\n" * 60_000), False, 1, 0, 1),
    "line ends between records": (lambda: (record() + b"\r\n" * (1 << 23)) * 2, False, 2, 0, 3),
    "first lines alone": (lambda: b"WARC/1.0\r\n" * 20_000, False, 0, 20_000, 3),
    "first lines alone, packed": (lambda: gzip.compress(b"WARC/1.0\r\n" * 20_000), True, 0, 20_000, 3),
    "lengths beyond the file": (lambda: lying(1 << 40, 60_000), False, 0, 60_000, 5),
    "lengths within the file": (lambda: lying(4 << 20, 160_000), False, 0, 160_000, 15),
    "lengths beyond the file, packed": (lambda: gzip.compress(lying(1 << 40, 40_000)), True, 0, 40_000, 5),
    "lengths beyond members": (lambda: gzip.compress(lying(1 << 40, 1)) * 10_000, True, 0, 10_000, 5),
    "members of nothing": (lambda: gzip.compress(b"") * 200_000, True, 0, 0, 5),
    "small members in a record": (
        lambda: gzip.compress(b"\r\n" + lying(900_000, 1), 1) * 20_000,
        True,
        0,
        20_000,
        8,
    ),
    "broken members": (lambda: (gzip.compress(b"WARC/1.0\r\n")[:-1] + b"x") * 10_000, True, 0, 10_000, 5),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive(name: str) -> None:
    make, compressed, records, broken, seconds = ARCHIVES[name]
    content = io.BytesIO(make())
    told: list[int] = []
    with within(seconds):
        found = sum(1 for _ in warc_records(content, compressed, lambda at, _: told.append(at), lambda _: False))
    assert (found, len(told)) == (records, broken)
    assert told == sorted(told)
