"""The command in the tests' process: its exit status and its output."""

from collections.abc import Callable
from typing import NamedTuple


class Printed(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The error of a failed command: the last line that it prints."""
        last = self.err.splitlines()[-1]
        assert self.status in (1, 2) and last.startswith("gpulsh: error: "), self
        return last.removeprefix("gpulsh: error: ")


Command = Callable[..., Printed]
