"""`cached_value`: once per object, and no object waits for another."""

from __future__ import annotations

from threading import Event, Thread

from gpulsh.cached import cached_value


class Squares:
    def __init__(self, number: int) -> None:
        self.number, self.times = number, 0
        self.begun, self.may_end = Event(), Event()

    @cached_value
    def square(self) -> int:
        """The square."""
        self.times += 1
        self.begun.set()
        assert self.may_end.wait(20)
        return self.number**2


def test_once_per_object() -> None:
    squares = Squares(3)
    squares.may_end.set()
    assert (squares.square, squares.square, squares.times) == (9, 9, 1)
    assert Squares.square.__doc__ == "The square."


def test_no_object_waits_for_another() -> None:
    """A lock of the class would also outlive a fork, and its child would wait forever."""
    slow, fast = Squares(2), Squares(3)
    fast.may_end.set()
    one, other = Thread(target=lambda: slow.square), Thread(target=lambda: fast.square)
    one.start()
    assert slow.begun.wait(20)
    other.start()
    began = fast.begun.wait(5)
    slow.may_end.set()
    one.join()
    other.join()
    assert began and (slow.square, fast.square) == (4, 9)
