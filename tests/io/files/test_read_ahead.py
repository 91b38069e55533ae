"""Pieces read by several threads within a bound of bytes: the same blocks in the same order."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

from gpulsh.io.files.read_ahead import read_ahead


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("most", [0, 10, 1000])
def test_in_order_and_within_the_bound(threads: int, most: int) -> None:
    rng = random.Random(7)
    pieces = [[rng.randrange(8) for _ in range(rng.choice([0, 1, 3, 40]))] for _ in range(30)]
    lock = threading.Lock()
    held = peak = 0

    def read(piece: list[int]) -> Iterator[tuple[int, int]]:
        nonlocal held, peak
        for place, size in enumerate(piece):
            with lock:
                held += size
                peak = max(peak, held)
            if rng.random() < 0.1:
                time.sleep(0.001)
            yield place, size

    found = []
    for place, size in read_ahead(iter(pieces), read, lambda block: block[1], threads, most):
        found.append((place, size))
        with lock:
            held -= size
    assert found == [(place, size) for piece in pieces for place, size in enumerate(piece)]
    # One block in the hands of each thread and of the reader, and one more of the piece that is asked for.
    assert peak <= most + 8 * (threads + 2)


def test_an_error_comes_in_its_place() -> None:
    def read(piece: int) -> Iterator[int]:
        yield piece
        if piece == 2:
            raise ValueError("broken")

    found = []
    with pytest.raises(ValueError, match="broken"):
        for block in read_ahead(range(5), read, lambda _: 1, 3, 100):
            found.append(block)
    assert found == [0, 1, 2]


def test_the_threads_stop_with_the_reader() -> None:
    before = threading.active_count()

    def read(piece: int) -> Iterator[int]:
        while True:
            yield piece

    blocks = read_ahead(range(100), read, lambda _: 1, 4, 10)
    assert [next(blocks) for _ in range(50)] == [0] * 50
    blocks.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
