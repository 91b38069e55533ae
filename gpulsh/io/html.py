"""The text of web pages, by Resiliparse. Other processes read the pages of HTML that are not small.

The time for some pages grows with the square of their size: a tag of many attributes, a list of many options. Nothing
could stop a thread there, so each process has a limit of processor time for a page. A page that needs more is damaged.
Resiliparse also keeps Python's lock and ends the process that has too little memory for it.
"""

from __future__ import annotations

import atexit
import os
import signal
import struct
import subprocess
import sys
from contextlib import suppress

from gpulsh.backends.parallel import python_command
from gpulsh.errors import InputError

SMALL = 4096  # bytes of a page that takes little time with any content
MIN_SECONDS, BYTE_SECONDS = 10.0, 1e-5  # of processor time for a page; usual ones take 1e-7 a byte
PAGE = struct.Struct("<qqd")  # bytes of a charset and of a page, and the seconds that it may take
ANSWER = struct.Struct("<?q")  # whether the page is damaged, and bytes of its text or of the reason
READY = b"+"
CHILD = f"from {__name__} import serve_pages; serve_pages()"


def page_text(body: bytes, charset: str | None, *, is_html: bool) -> bytes:
    """All text that a page shows, as UTF-8. Without a `charset` the page names its own, or its bytes show it.

    Raises ValueError or LookupError if a page cannot be read or takes too long, and MemoryError.
    """
    if not is_html or len(body) <= SMALL:
        return _text(body, charset, is_html)
    try:
        reader = _idle.pop()
    except IndexError:
        reader = _Reader()
    is_damaged, answer = reader.read_page(body, charset or "")
    _idle.append(reader)
    if is_damaged:
        raise ValueError(answer.decode())
    return answer


def _text(body: bytes, charset: str | None, is_html: bool) -> bytes:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, map_encoding_to_html5

    named = map_encoding_to_html5(charset, fallback_utf8=False) if charset else None
    text: str = bytes_to_str(body, encoding=named or _encoding(body, is_html), errors="replace")
    if is_html:
        text = extract_plain_text(text, list_bullets=False)
    return text.encode("utf-8", "replace")


def _encoding(body: bytes, is_html: bool) -> str:
    """The encoding that a page names, or that its bytes show."""
    from resiliparse.parse.encoding import detect_encoding

    found: str = detect_encoding(body, from_html_meta=is_html) or "utf-8"
    if found != "utf-8" and not body.isascii() and found == detect_encoding(body):  # it is a guess
        with suppress(UnicodeDecodeError):  # one character of several bytes is too few for uchardet to guess UTF-8
            body.decode()
            return "utf-8"
    return found


def serve_pages() -> None:
    """Answer pages of HTML from standard input until it ends. SIGVTALRM ends the process when a page takes too long."""
    source, out = sys.stdin.buffer, sys.stdout.buffer
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    out.write(READY)
    out.flush()
    while head := source.read(PAGE.size):
        named, size, seconds = PAGE.unpack(head)
        charset, body = source.read(named).decode(), source.read(size)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            is_damaged, answer = False, _text(body, charset, is_html=True)
        except (ValueError, LookupError) as error:
            is_damaged, answer = True, str(error).encode("utf-8", "replace")
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        out.write(ANSWER.pack(is_damaged, len(answer)))
        out.write(answer)
        out.flush()


class _Reader:
    """A process that reads pages of HTML, one after another. It ends when its standard input does."""

    def __init__(self) -> None:
        command, pipe = python_command(CHILD), subprocess.PIPE
        try:  # in a session of its own: Ctrl-C is for this process alone
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise InputError(f"no process can be started to read HTML: {os.strerror(error.errno or 0)}") from error
        if self._read_answer(len(READY)) != READY:
            raise InputError(f"no process can read HTML: {sys.executable} ended with status {self.stop()}")

    def read_page(self, body: bytes, charset: str) -> tuple[bool, bytes]:
        """Whether a page is damaged, and why; or its text. If it takes too long, a ValueError ends the reader."""
        assert self._process.stdin is not None
        name, seconds = charset.encode("utf-8", "replace"), MIN_SECONDS + BYTE_SECONDS * len(body)
        with suppress(BrokenPipeError):
            for part in (PAGE.pack(len(name), len(body), seconds), name, body):
                self._process.stdin.write(part)
            self._process.stdin.flush()
        head = self._read_answer(ANSWER.size)
        is_damaged, size = ANSWER.unpack(head) if len(head) == ANSWER.size else (False, 1)
        answer = self._read_answer(size)
        if len(answer) == size:
            return is_damaged, answer
        if self.stop() == -signal.SIGVTALRM:
            raise ValueError(f"its HTML takes more than {seconds:.0f} s of processor time")
        raise MemoryError

    def _read_answer(self, size: int) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.read(size)

    def stop(self) -> int:
        """End the process; its status."""
        self._process.communicate()
        return self._process.returncode


_idle: list[_Reader] = []
os.register_at_fork(after_in_child=_idle.clear)  # a fork must not share their pipes


@atexit.register
def _stop_readers() -> None:
    for reader in _idle:
        reader.stop()
