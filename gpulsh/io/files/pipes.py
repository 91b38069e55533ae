"""Standard input and named pipes are copied to files first, because a run reads its inputs several times.

Devices and sockets are refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from gpulsh.errors import InputError, OutputError
from gpulsh.io.compression import BEGINNINGS, HEAD, Compression, blocks
from gpulsh.io.file import File, irregular_kind, reading
from gpulsh.io.files.read_options import DEFAULTS, ReadOptions
from gpulsh.io.formats.json_record import BOM
from gpulsh.io.formats.warc_records import FIRST

STANDARD_INPUT = "-", "/dev/stdin"  # the latter may be a regular file, whose name has no ending
STEP = 1 << 20
JSON = re.compile(rb"\{\s*[\"}]|\[\s*[{\]]")  # begins an object, or an array of objects


def is_stream(given: str) -> bool:
    """Whether INPUT is standard input or a named pipe."""
    if given in STANDARD_INPUT:
        return True
    try:
        return "://" not in given and stat.S_ISFIFO(os.stat(given).st_mode)
    except (OSError, ValueError):
        return False


def refuse_irregular(file: File) -> None:
    """InputError if a file of this machine is a pipe, a socket or a device."""
    if file.filesystem is not None:
        return
    with reading(file):
        mode = os.stat(file.path).st_mode
    if kind := irregular_kind(mode):
        how = ", or give it as an INPUT of its own, which is read once" if stat.S_ISFIFO(mode) else ""
        raise InputError(f"{file.name}: is {kind}, not a regular file; leave it out{how}")


class Streams:
    """Copies of streams, in folders in TMPDIR that are removed with this object.

    With `lines` in `options`, a stream of an unknown format is text, one document per line.
    """

    def __init__(self, options: ReadOptions = DEFAULTS) -> None:
        self._options = options
        self._taken: dict[str, str] = {}

    def take(self, given: str, endings: Sequence[str]) -> File:
        """All of the stream as a file. Its name has the format if it has one of the `endings`, otherwise its content.

        A first line with a tab or comma that is no JSON is the header of TSV or CSV.
        """
        is_standard = given in STANDARD_INPUT
        name = "stdin" if is_standard else os.path.basename(given)
        of = STANDARD_INPUT[0] if is_standard else os.path.realpath(given)
        if of in self._taken:
            raise InputError(f"{given}: can be read only once, and is given as {self._taken[of]} too; give it once")
        self._taken[of] = given
        stream = File(given, name, given)
        with reading(stream):
            source: BinaryIO = open(0 if is_standard else given, "rb", closefd=not is_standard)  # noqa: SIM115
        with source:
            with reading(stream):
                head = source.read(STEP)
            if not name.lower().endswith(tuple(endings)):
                name += _ending(head, self._options)
            try:
                folder = tempfile.mkdtemp(prefix="gpulsh-")
            except OSError as error:
                raise OutputError(f"{tempfile.gettempdir()}: cannot be written: {error.strerror}") from error
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = Path(folder, name)
            self._copy(stream, head, source, path)
        return File(given, name, str(path), source=given, copied=True)

    def _copy(self, stream: File, head: bytes, source: BinaryIO, path: Path) -> None:
        # The copy's time of change follows from its content, so that a resumed run accepts it.
        digest = hashlib.sha256()
        try:
            with open(path, "wb") as out:
                step = head
                while step:
                    out.write(step)
                    digest.update(step)
                    with reading(stream):
                        step = source.read(STEP)
            time = int.from_bytes(digest.digest()[:8], "little") >> 4
            os.utime(path, ns=(time, time))
        except OSError as error:
            raise OutputError(
                f"{path.parent}: cannot be written: {error.strerror}; {stream.name} is copied there, set TMPDIR to a"
                " folder with room for it"
            ) from error


def _ending(head: bytes, options: ReadOptions) -> str:
    """The ending that the name of a file with these first bytes has."""
    if head.startswith(b"PAR1"):
        return ".parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return ".arrow"
    found = (name for name, (magic, begins) in BEGINNINGS.items() if head.startswith(magic) and begins(head[:HEAD]))
    packed: Compression = next(found, "")
    content = b""
    with suppress(ValueError):  # the reader reports it
        content = next(blocks(BytesIO(head), packed), b"")
    return f"{_content_ending(content, options)}.{packed}".rstrip(".")


def _content_ending(content: bytes, options: ReadOptions) -> str:
    """The ending of a file with this content; anything unknown is taken for JSON lines."""
    if content.startswith(FIRST):
        return ".warc"
    begin = content.removeprefix(BOM).lstrip()
    if options.lines and JSON.match(begin) is None:
        return ".txt"
    if begin[:1] in (b"", b"{", b"["):
        return ".json" if begin[:1] == b"[" else ".jsonl"
    header, _, _ = begin.partition(b"\n")
    if options.delimiter is not None and options.delimiter.encode() in header:
        return ".csv"
    return ".tsv" if b"\t" in header else ".csv" if b"," in header else ".jsonl"
