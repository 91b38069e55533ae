"""Work in the background: in order, one piece at a time, and no error is lost."""

from __future__ import annotations

import threading

import pytest

from gpulsh.run.stages.sign import background_writer


@pytest.mark.parametrize("beside", [False, True])
def test_all_is_done_in_order(beside: bool) -> None:
    done: list[tuple[int, bool]] = []
    mine = threading.get_ident()
    with background_writer(beside) as do:
        for number in range(9):
            do(lambda number=number: done.append((number, threading.get_ident() == mine)))  # type: ignore[misc]
    assert done == [(number, not beside) for number in range(9)]


def test_the_caller_goes_on_until_a_second_piece_waits() -> None:
    may_end = threading.Event()
    begun: list[int] = []

    def slow() -> None:
        begun.append(1)
        assert may_end.wait(60)

    with background_writer(True) as do:
        do(slow)  # would not return if it were done here
        threading.Timer(0.05, may_end.set).start()
        do(lambda: begun.append(2 if may_end.is_set() else 0))
    assert begun == [1, 2]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_what_a_piece_raises_reaches_the_caller(beside: bool, later: bool) -> None:
    def fail() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), background_writer(beside) as do:
        do(fail)
        if later:
            do(lambda: pytest.fail("nothing is done after a failure"))


def test_the_callers_own_error_waits_for_what_is_being_done() -> None:
    done: list[bool] = []
    with pytest.raises(ValueError, match="mine"), background_writer(True) as do:
        do(lambda: (threading.Event().wait(0.05), done.append(True))[1])
        raise ValueError("mine")
    assert done == [True]
