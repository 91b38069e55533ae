"""How outputs are compressed: `--compression`, or the codec of the input at the library's default level.

Rejected: guessing the input's level from a sample. A corpus that was packed at a high level then took minutes to write,
and the default takes seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpulsh.errors import ParameterError
from gpulsh.params import shown

LEVELS: dict[str, tuple[int, ...]] = {
    "none": (),
    "snappy": (),
    "gzip": tuple(range(1, 10)),
    "brotli": tuple(range(1, 12)),
    "zstd": tuple(range(1, 20)),
    "lz4": (1, *range(3, 13)),
}


@dataclass(frozen=True)
class Packing:
    """A codec and its level; None: the library's default."""

    codec: str
    level: int | None = None

    @classmethod
    def parse(cls, given: str) -> Packing:
        """Parse CODEC or CODEC:LEVEL. ParameterError for an unknown codec, or a level that it lacks.

        >>> Packing.parse("zstd:9")
        Packing(codec='zstd', level=9)
        """
        codec, colon, level = given.partition(":") if isinstance(given, str) else ("", "", "")
        levels = LEVELS.get(codec)
        if levels is None:
            raise ParameterError(
                f"compression is {shown(given)}; give one of {', '.join(LEVELS)}, or CODEC:LEVEL as zstd:9"
            )
        if not colon:
            return cls(codec)
        if not (level.isascii() and level.isdigit() and int(level) in levels):
            raise ParameterError(f"compression is {given!r}; of {codec}, {_allowed(levels)}")
        return cls(codec, int(level))

    def told(self) -> str:
        """As `parse` takes it."""
        return self.codec if self.level is None else f"{self.codec}:{self.level}"


def _allowed(levels: tuple[int, ...]) -> str:
    if not levels:
        return "there are no levels; leave it out"
    first = "1, 3" if 2 not in levels else "1"
    return f"levels are {first} to {levels[-1]}"
