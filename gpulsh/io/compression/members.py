"""Compressed content member by member: gzip members, zstd frames. What is damaged is known at a member's end, by its
checksum: `whole_members` hands over nothing of one before, and after a damaged one the next can be looked for.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from typing import BinaryIO, NamedTuple

PLAIN_STEP = 4 << 20
PACKED_STEP = 64 << 10
GZIP = b"\x1f\x8b\x08"  # begins a gzip member
TRUNCATED = "its compressed data ends too early; the file is truncated"
MOST_HELD = 8 << 20  # bytes of a member's content; a larger one is read twice, once for its checksum
LOOKED_AT = 512  # bytes that show whether a member begins


class DamagedMember(ValueError):
    """A member that its decoder or its checksum refuses, or that is cut short; `offset` is the byte where it begins."""

    def __init__(self, offset: int, told: str) -> None:
        super().__init__(f"byte {offset}: {told}")
        self.offset, self.told = offset, told


class Piece(NamedTuple):
    """Content of the member that begins at byte `begin`; with its last piece the byte behind it is known."""

    begin: int
    content: bytes
    end: int | None


Pieces = Callable[[BinaryIO, int], Generator[Piece]]  # of all members from a byte on


def broken_data(error: object) -> str:
    """What is said of compressed data that its decoder refuses."""
    return f"its compressed data is broken ({error})"


def gzip_pieces(source: BinaryIO, start: int = 0) -> Generator[Piece]:
    """Pieces of at most PLAIN_STEP. Gzip allows members one after another, and zero bytes between and behind them."""
    source.seek(start)
    read = begin = start
    member = None
    while step := source.read(PACKED_STEP):
        read += len(step)
        while step:
            if member is None:
                step = step.lstrip(b"\0")
                if not step:
                    break
                begin = read - len(step)
                member = zlib.decompressobj(wbits=31)
            try:
                content = member.decompress(step, PLAIN_STEP)
            except zlib.error as error:
                raise DamagedMember(begin, broken_data(error)) from error
            step = member.unconsumed_tail
            if member.eof:
                step, member = member.unused_data, None
                yield Piece(begin, content, read - len(step))
            elif content:
                yield Piece(begin, content, None)
    if member is not None:
        raise DamagedMember(begin, TRUNCATED)


def whole_members(pieces: Pieces, source: BinaryIO, start: int = 0) -> Iterator[Piece]:
    """Yield the pieces, but of a damaged member nothing, only a DamagedMember when it is its turn."""
    again: int | None = start
    while again is not None:
        running, again = pieces(source, again), None
        held: list[Piece] = []
        size = 0
        for piece in running:
            held.append(piece)
            size += len(piece.content)
            if piece.end is not None:
                yield from held
                held, size = [], 0
            elif size > MOST_HELD:
                held = []
                again = next(more.end for more in running if more.end is not None)
                running.close()  # and let go of its decoder, whose window may be as large as a document
                for known in pieces(source, piece.begin):
                    yield known
                    if known.end is not None:
                        break
                break


def next_member(source: BinaryIO, start: int, magic: bytes, begins: Callable[[bytes], bool]) -> int | None:
    """The first byte from `start` on where `magic` stands and the bytes there say that a member begins."""
    source.seek(start)
    held = b""
    last = False
    while not last:
        step = source.read(PACKED_STEP)
        held, last = held + step, not step
        at = held.find(magic)
        while at >= 0 and (last or at < len(held) - LOOKED_AT):
            if begins(held[at : at + LOOKED_AT]):
                return start + at
            at = held.find(magic, at + 1)
        keep = min(len(held), LOOKED_AT)
        start += len(held) - keep
        held = held[len(held) - keep :]
    return None


def gzip_begin(packed: bytes, most: int = PLAIN_STEP) -> bytes | None:
    """The content of the beginning of a gzip member; None where it is none."""
    try:
        return zlib.decompressobj(wbits=31).decompress(packed, most)
    except zlib.error:
        return None
