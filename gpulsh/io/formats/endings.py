"""Which format a file has: what its name ends with tells it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gpulsh.errors import InputError
from gpulsh.io.compression.streams import Compression
from gpulsh.io.file import File
from gpulsh.io.format import Format
from gpulsh.io.formats.arrow_ipc.format import Ipc
from gpulsh.io.formats.delimited.format import Delimited
from gpulsh.io.formats.jsonl.array import Json
from gpulsh.io.formats.jsonl.format import JsonLines
from gpulsh.io.formats.parquet.format import Parquet
from gpulsh.io.formats.text.lines import TextLines
from gpulsh.io.formats.text.plain import PlainText
from gpulsh.io.formats.warc.format import Warc

COMPRESSIONS: tuple[Compression, ...] = ("", "gz", "bz2", "xz", "zst")
STREAMED: dict[str, Callable[[Compression], Format]] = {
    **dict.fromkeys((".jsonl", ".ndjson"), JsonLines),
    ".json": Json,
    ".csv": partial(Delimited, ","),
    ".tsv": partial(Delimited, "\t"),
    ".txt": PlainText,
}
FORMATS: dict[str, Format] = {
    **dict.fromkeys((".parquet", ".pq"), Parquet()),
    **dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), Ipc()),
    **{ending: Warc(compressed=False) for ending in (".warc", ".wet")},
    **{ending: Warc(compressed=True) for ending in (".warc.gz", ".wet.gz")},
    **{
        f"{ending}.{compression}".rstrip("."): made(compression)
        for compression in COMPRESSIONS
        for ending, made in STREAMED.items()
    },
}
LINES = {compression: TextLines(compression) for compression in COMPRESSIONS}
KNOWN = (
    "known are .parquet .pq .arrow .arrows .feather .ipc; .warc .wet, plain or .gz; and plain or .gz .bz2 .xz .zst"
    f" {' '.join(STREAMED)}"
)


def format_of(file: File) -> Format:
    """The format that the file's name says it has."""
    found = known_format(file.path)
    if file.lines and isinstance(found, PlainText):
        return LINES[found.compression]
    if found is None:
        raise InputError(f"{file.name}: is of no known format; {KNOWN}")
    return found


def ending_of(path: str) -> str:
    """The end of a path that tells its format, as it is spelled there; empty where none does."""
    lower = path.lower()
    return next((path[-len(ending) :] for ending in FORMATS if lower.endswith(ending)), "")


def known_format(path: str) -> Format | None:
    """The format of files with such a path; None where none has."""
    return FORMATS.get(ending_of(path).lower())
