"""A JSON object of many bytes, parsed in little memory beside them: long strings stay where they lie.

A parser makes an object of every value, of 30 times the bytes of `{},{},`, and of a long text a copy or two, of up to
four bytes a character. Here a parser is given the object without its long strings, once it is known what that costs;
of a long string only its beginning and end are kept, until somebody asks for it.
"""

from __future__ import annotations

import codecs
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpulsh.io.formats.lines import Line
from gpulsh.io.limits import CostError
from gpulsh.io.rows import Bytes

STEP = 1 << 20  # bytes of a string that are decoded at once
# No group is possessive: Python's releases differ in what such a one matches. So each takes few steps at once.
SHORT = re.compile(rb'(?:[^"]++|"[^"\\]{0,1024}+(?:\\.[^"\\]{0,64}+){0,64}"){0,1024}', re.DOTALL)
STRING = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,1024}')
# Of two escapes that stand for the halves of one character, neither goes without the other.
PIECE = re.compile(rb"(?:[^\\]{1,1024}+|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\[^u]){1,512}", re.DOTALL)
# Bytes that a parser and its objects take at most, as orjson and Python's own were measured with each kind of value.
COSTS = {b",": 80, b"{": 130, b"[": 70, b":": 24}
BYTE_COST = 6
STRING_COST = 100  # bytes for which a string that is left where it lies stands


@dataclass(frozen=True)
class LongString:
    """A string between the quotes at `begin` and `end` of a line."""

    line: Line
    begin: int
    end: int

    def pieces(self) -> Iterator[Bytes]:
        """It as UTF-8, lone surrogates included; in one piece, not copied, where it stands so in the line."""
        if self.line.find(b"\\", self.begin, self.end) < 0 and self._is_utf8():
            view = memoryview(self.line)[self.begin : self.end]
            # A small part of a line must not hold all of it.
            yield view if 2 * len(view) > len(self.line) else bytes(view)
            return
        at = self.begin
        while at < self.end:
            stop = self._border(at)
            yield _decoded(bytes(memoryview(self.line)[at:stop])).encode("utf-8", "surrogatepass")
            at = stop

    def text(self) -> str:
        """It as a Python string."""
        return b"".join(self.pieces()).decode("utf-8", "surrogatepass")

    def _is_utf8(self) -> bool:
        decoder = codecs.getincrementaldecoder("utf-8")()
        view = memoryview(self.line)
        try:
            for at in range(self.begin, self.end, STEP):
                stop = min(at + STEP, self.end)
                decoder.decode(view[at:stop], final=stop == self.end)
        except UnicodeDecodeError:
            return False
        return True

    def _border(self, begin: int) -> int:
        """A place behind `begin`, but not far, that lies inside no escape, pair of escapes or character."""
        matched = PIECE.match(self.line, begin, self.end)
        assert matched is not None  # a string of which another part is no escape was refused
        stop = matched.end()
        for back in range(1, 4 if stop < self.end else 0):
            byte = self.line[stop - back]
            if byte < 0x80:
                break
            if byte >= 0xC0:
                return stop - back
        return stop


def _decoded(content: bytes) -> str:
    import orjson

    quoted = b'"' + content + b'"'
    try:
        found = orjson.loads(quoted)
    except ValueError:
        found = json.loads(quoted.decode("utf-8", "replace"))
    assert isinstance(found, str)
    return found


def _end(pattern: re.Pattern[bytes], line: Line, at: int) -> int:
    """The end of all that matches from `at` on, some steps after others."""
    while (matched := pattern.match(line, at)) is not None and matched.end() > at:
        at = matched.end()
    return at


class LargeObject:
    """The object of a line from byte `start` on; a CostError where parsing would take more than `most` bytes."""

    def __init__(self, line: Line, start: int, most: int | None) -> None:
        self._line, self._mark = line, "\0" + secrets.token_hex(8)
        self._strings: list[tuple[int, int]] = []
        spans: list[tuple[int, int]] = []
        cost = longest = 0
        at = start
        while True:
            quote = _end(SHORT, line, at)
            spans.append((at, quote))
            cost += BYTE_COST * (quote - at + STRING_COST)
            cost += sum(each * line.count(what, at, quote) for what, each in COSTS.items())
            if quote == len(line):
                break
            if most is not None and cost > most:  # so many that looking for all would take long
                cost = max(cost, cost * len(line) // quote)
                break
            at = _end(STRING, line, quote + 1)
            if line[at : at + 1] != b'"':
                raise ValueError(f"the string that begins at byte {quote} does not end well")
            self._strings.append((quote + 1, at))
            longest = max(longest, at - quote)
            at += 1
        if most is not None and cost + longest > most:
            raise CostError(cost + longest)
        view = memoryview(line)
        marks = [b'"\\u0000%s %d"' % (self._mark[1:].encode(), number) for number in range(len(self._strings))]
        parts = [bytes(view[begin:end]) for begin, end in spans]
        self.short = b"".join(part for pair in zip(parts, [*marks, b""], strict=True) for part in pair)

    def restored(self, value: Any, *, long: bool = False) -> Any:
        """A value of the parsed `short` with its long strings: as `LongString` where it is one, otherwise as they are.

        With `long` as they are in any case.
        """
        if isinstance(value, str):
            if not value.startswith(self._mark):
                return value
            string = LongString(self._line, *self._strings[int(value[len(self._mark) :])])
            return string.text() if long else string
        if isinstance(value, list):
            return [self.restored(each, long=True) for each in value]
        if isinstance(value, dict):
            return {self.restored(name, long=True): self.restored(each, long=True) for name, each in value.items()}
        return value
