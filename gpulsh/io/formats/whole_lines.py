"""Blocks of text cut where lines end: a line longer than a block is held once, and one longer than allowed never."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class LongLineError(Exception):
    """A line that is longer than allowed: `held` bytes of it were read, `rest` begins with the others.

    `place` is which line it is of those that were to come next.
    """

    def __init__(self, held: int, rest: Iterable[bytes] = (), place: int = 0) -> None:
        super().__init__(held)
        self.place, self._held, self._rest = place, held, rest

    def size(self) -> int:
        """Bytes of the line, of which those not held are only counted."""
        size = self._held
        for block in self._rest:
            end = block.find(b"\n")
            if end >= 0:
                return size + end
            size += len(block)
        return size


def whole_lines(source: Iterable[bytes], most: int | None = None) -> Iterator[tuple[bytearray, bytes]]:
    """Yield lines with their ends: one that began in an earlier block, or nothing, and all that the block holds whole.

    The last line may have no end. A line of more than `most` bytes that is not in one block is a LongLineError.

    >>> list(whole_lines([b"a\\nb", b"c\\nd\\n", b"e"]))
    [(bytearray(b''), b'a\\n'), (bytearray(b'bc\\n'), b'd\\n'), (bytearray(b'e'), b'')]
    """
    held = bytearray()
    source = iter(source)
    for block in source:
        first = block.find(b"\n") + 1
        size = len(held) + (first - 1 if first else len(block))
        if most is not None and size > most:
            raise LongLineError(size, () if first else source)
        if not first:
            held += block  # in one place, so that it costs its length once
            continue
        begin = first if held else 0
        end = block.rfind(b"\n") + 1
        held += block[:begin]
        rest, left = block[begin:end], block[end:]
        del block
        yield held, rest
        del rest
        held = bytearray(left)
    if held:
        yield held, b""
