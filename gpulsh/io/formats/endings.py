"""The format of a file, by the end of its name."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial

from gpulsh.errors import InputError
from gpulsh.io.compression import Compression
from gpulsh.io.file import File
from gpulsh.io.format import Format
from gpulsh.io.formats.arrow_ipc import Ipc
from gpulsh.io.formats.delimited import Delimited
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.parquet import Parquet
from gpulsh.io.formats.text import PlainText, TextLines
from gpulsh.io.formats.warc import Warc

COMPRESSIONS: dict[str, Compression] = {"": "", "gz": "gz", "bz2": "bz2", "xz": "xz", "zst": "zst", "zstd": "zst"}
# Of formats that take more than a compression, one object for each, which files are grouped by.
text, text_lines, delimited = cache(PlainText), cache(TextLines), cache(Delimited)
STREAMED: dict[str, Callable[[Compression], Format]] = {
    **dict.fromkeys((".jsonl", ".ndjson"), JsonLines),
    ".json": partial(JsonLines, may_be_array=True),
    ".csv": partial(Delimited, ","),
    ".tsv": partial(Delimited, "\t"),
    ".txt": lambda compression: text(compression, None),
}
FORMATS: dict[str, Format] = {
    **dict.fromkeys((".parquet", ".pq"), Parquet()),
    **dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), Ipc()),
    **dict.fromkeys((".warc", ".wet"), Warc("")),
    **dict.fromkeys((".warc.gz", ".wet.gz"), Warc("gz")),
    **{
        f"{ending}.{packed}".rstrip("."): made(compression)
        for packed, compression in COMPRESSIONS.items()
        for ending, made in STREAMED.items()
    },
}
WARC_ZST = (".warc.zst", ".wet.zst")  # which may begin with a dictionary
FOREIGN = {  # formats whose text only a library of their own can find
    **dict.fromkeys((".xls", ".xlsx", ".xlsm", ".ods"), "Excel"),
    **dict.fromkeys((".sqlite", ".sqlite3", ".db"), "SQLite"),
    ".pdf": "PDF",
    ".avro": "Avro",
    ".orc": "ORC",
    ".pkl": "pickle",
    **dict.fromkeys((".h5", ".hdf5"), "HDF5"),
    **dict.fromkeys((".doc", ".docx", ".odt"), "a word-processor document"),
    **dict.fromkeys((".html", ".htm"), "HTML"),
    **dict.fromkeys(WARC_ZST, "WARC in zstd"),
}
NO_TEXT = {  # files that --as-text cannot read
    *(".7z", ".br", ".bz2", ".gz", ".gzip", ".lz4", ".snappy", ".tar", ".xz", ".z", ".zip", ".zst", ".zstd"),
    *(".bin", ".exe", ".npy", ".npz", ".pt", ".pyc", ".so"),
    *(".gif", ".jpeg", ".jpg", ".png", ".webp", ".mp3", ".mp4", ".wav"),
}
MAX_SHOWN = 5  # endings
KNOWN = (
    "known are .parquet .pq .arrow .arrows .feather .ipc; .warc .wet, plain or .gz; and plain or .gz .bz2 .xz .zst"
    f" {' '.join(STREAMED)}"
)


def format_of(file: File) -> Format:
    """The format that the file's name says it has, or its owner."""
    if file.as_text:
        return text(compression_of(file.plain_path), file.encoding)
    found = known_format(file.plain_path)
    if found is not None and not (file.lines or file.delimiter or file.encoding):
        return found
    if isinstance(found, PlainText):
        return (text_lines if file.lines else text)(found.compression, file.encoding)
    if isinstance(found, Delimited) and (file.delimiter or file.encoding):
        return delimited(file.delimiter or found.delimiter, found.compression, file.encoding)
    if found is None:
        ending = _last_ending(file.plain_path)
        kind = FOREIGN.get(ending.lower(), "of no known format")
        raise InputError(f"{file.name}: is {kind}; {_advice([ending])}")
    return found


def row_name(file: File, row: int) -> str:
    """A row as messages name it, such as "a.jsonl: line 3"; the file may be read for it."""
    return f"{file.name}: {format_of(file).place(file, row)}"


def no_known_format(paths: Sequence[str]) -> str:
    """The message for a folder with these files, none of a known format."""
    endings = Counter(sorted(map(_last_ending, paths))).most_common(MAX_SHOWN + 1)
    counts = [f"{ending} ({count:,})" for ending, count in endings[:MAX_SHOWN]]
    more = ["..."] if len(endings) > MAX_SHOWN else []
    but = f", but {', '.join([*counts, *more])}" if counts else ""
    return f"holds no file of a known format{but}; {_advice([ending for ending, _ in endings])}"


def _last_ending(path: str) -> str:
    """The last ending of a path, or the file's whole name if that has none; both endings of WARC in zstd."""
    if (both := path[path.rfind(".", 0, path.rfind(".")) :]).lower() in WARC_ZST:
        return both
    return os.path.splitext(path)[1] or os.path.basename(path)


def _advice(endings: Sequence[str]) -> str:
    """Advice for files with such endings."""
    others = [ending for ending in endings if ending and ending.lower() not in FOREIGN.keys() | NO_TEXT]
    if others:
        pattern = f"*{others[0]}" if others[0].startswith(".") else others[0]
        return f"give --as-text '{pattern}' to take each such file as one text; {KNOWN}"
    if any(ending.lower() in WARC_ZST for ending in endings):
        return "make .warc.gz of it by `fastwarc recompress`"
    foreign = any(ending.lower() in FOREIGN for ending in endings)
    return "convert to Parquet or CSV first" if foreign else KNOWN


def ending_of(path: str) -> str:
    """The end of a path that names its format, in the path's spelling; empty if there is none."""
    start = path.rfind(".")
    if path[start + 1 :].lower() in COMPRESSIONS:
        start = path.rfind(".", 0, max(start, 0))
    ending = path[start:] if start >= 0 else ""
    return ending if ending.lower() in FORMATS else ""


def compression_of(path: str) -> Compression:
    """The compression that the end of a path says."""
    lower = path.lower()
    return next((each for packed, each in COMPRESSIONS.items() if packed and lower.endswith(f".{packed}")), "")


def known_format(path: str) -> Format | None:
    """The format of files with such a path; None if none has."""
    return FORMATS.get(ending_of(path).lower())
