"""The files of signed documents: several threads change no byte, and write in the background while a device signs."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpulsh.arrays import Signed
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.run.records.tables import DIGESTS
from gpulsh.run.stages import sign
from gpulsh.run.stages.sign import background_writer

BANDS, BATCHES = 5, 7


class Device(ReferenceBackend):
    """Leaves the host so many threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def sizes(self) -> Any:
        return super().sizes()._replace(readers=self._threads)


def batches(order: str) -> list[Signed]:
    """Rows as a device has them ("C"), or band after band ("F"); some without a token."""
    draw = np.random.default_rng(1)
    found = []
    for _ in range(BATCHES):
        count = int(draw.integers(1, 300))
        digests, exact = (draw.integers(0, 1 << 63, (count, wide), np.int64).astype(np.uint64) for wide in (BANDS, 2))
        found.append(Signed(np.array(digests, order=order), exact, draw.integers(0, 4, count)))  # type: ignore[call-overload]
    return found


def written(folder: Path, given: list[Signed], threads: int) -> list[bytes]:
    folder.mkdir()
    made, counts = sign._write_runs(folder, 0, iter(given), BANDS, Device(threads))
    assert counts["empty"] == sum(int((batch.shingles == 0).sum()) for batch in given) > 0
    assert sorted(made) == sorted(path.name for path in folder.iterdir())
    return [(folder / name).read_bytes() for name in sorted(made)]


@pytest.mark.parametrize(
    ("words", "order"), [(1, "C"), (900 * (BANDS + sign.OTHER_WORDS), "F"), (900 * (BANDS + sign.OTHER_WORDS), "C")]
)
def test_threads_change_no_byte(order: str, words: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign, "RUN_DIGESTS", words)
    given = batches(order)
    wanted = written(tmp_path / "one", given, 1)
    assert written(tmp_path / "two", given, 2) == written(tmp_path / "nine", given, 9) == wanted
    digests = np.concatenate([batch.digests for batch in given])
    filled = np.concatenate([batch.shingles > 0 for batch in given])
    found = np.zeros_like(digests)
    for number, run in enumerate(DIGESTS.open(tmp_path / "two", 0).runs()):
        found[run.row, number % BANDS] = run.digest
    assert (found[filled] == digests[filled]).all() and not found[~filled].any()


def test_who_reads_what_a_device_signs_puts_nothing_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign, "RUN_DIGESTS", 1)
    ordering, order = set[int](), sign.range_order

    def watched(hashes: Any) -> Any:
        ordering.add(threading.get_ident())
        return order(hashes)

    monkeypatch.setattr(sign, "range_order", watched)
    written(tmp_path / "several", batches("C"), 3)
    assert threading.get_ident() not in ordering
    ordering.clear()
    written(tmp_path / "one", batches("C"), 1)
    assert ordering == {threading.get_ident()}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_disk_that_is_full_ends_it(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sign.ColumnsFile, "append", full)
    monkeypatch.setattr(sign, "RUN_DIGESTS", 1)
    signed: list[int] = []

    def given() -> Iterator[Signed]:
        for batch in batches("C"):
            signed.append(len(batch.shingles))
            yield batch

    with pytest.raises(OSError, match="No space left"):
        sign._write_runs(tmp_path, 0, given(), BANDS, Device(threads))
    assert len(signed) <= 2 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("beside", [False, True])
def test_all_is_done_in_order_and_errors_reach_the_caller(beside: bool) -> None:
    done: list[tuple[int, bool]] = []
    mine = threading.get_ident()
    with background_writer(beside) as do:
        for number in range(9):
            do(lambda number=number: done.append((number, threading.get_ident() == mine)))  # type: ignore[misc]
    assert done == [(number, not beside) for number in range(9)]

    def fail() -> None:
        raise OSError("disk full")

    for later in (False, True):
        with pytest.raises(OSError, match="disk full"), background_writer(beside) as do:
            do(fail)
            if later:
                do(lambda: pytest.fail("nothing is done after a failure"))


def test_the_caller_goes_on_until_a_second_piece_waits() -> None:
    may_end = threading.Event()
    begun: list[int] = []

    def slow() -> None:
        begun.append(1)
        assert may_end.wait(60)

    with pytest.raises(ValueError, match="mine"), background_writer(True) as do:
        do(slow)  # would not return if it were done here
        threading.Timer(0.05, may_end.set).start()
        do(lambda: begun.append(2 if may_end.is_set() else 0))
        raise ValueError("mine")  # which waits for the piece
    assert begun == [1, 2]
