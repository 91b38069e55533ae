"""From INPUTs as given (files, folders, globs, URLs) to files in the order that decides which document is first."""

from __future__ import annotations

import glob
import json
import logging
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gpulsh.errors import InputError, ParameterError
from gpulsh.io.compression.packing import Packing
from gpulsh.io.compression.streams import Compression
from gpulsh.io.file import File
from gpulsh.io.files.pipes import Streams, is_stream, refuse_irregular
from gpulsh.io.files.places import above_all, climbs, in_folder, origin, own_folders, refuse_outside, told_apart
from gpulsh.io.format import Format
from gpulsh.io.formats.arrow_ipc.format import Ipc
from gpulsh.io.formats.delimited.format import Delimited
from gpulsh.io.formats.jsonl.array import Json
from gpulsh.io.formats.jsonl.format import JsonLines
from gpulsh.io.formats.parquet.format import Parquet
from gpulsh.io.formats.text.lines import TextLines, tell_of_lines
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
# What `datasets` writes beside the Arrow files of a data set, and above those of several: no documents.
OF_ONE, OF_SEVERAL = ("dataset_info.json", "state.json"), "dataset_dict.json"
# And what it computed of it since, a copy of each document as a rule.
COMPUTED = re.compile(r"cache-[0-9a-f]{16}(_[0-9]+_of_[0-9]+)?\.arrow")
STATE_BYTES = 16 << 20  # of state.json, which names the data set's own files

_log = logging.getLogger("gpulsh")


def format_of(file: File) -> Format:
    """The format that the file's name says it has."""
    found = _format(file.path)
    if file.lines and isinstance(found, PlainText):
        return LINES[found.compression]
    if found is None:
        raise InputError(f"{file.name}: is of no known format; {KNOWN}")
    return found


def as_lines(files: Sequence[File], lines: bool) -> list[File]:
    """The files, of which with `lines` each line of a text file is a document; without, a file that looks as if it were
    so is told of. ParameterError where there is no text file to take so.
    """
    if not lines:
        tell_of_lines(files)
        return list(files)
    if not any(isinstance(format_of(file), PlainText) for file in files):
        raise ParameterError("lines is given, and there is no text file (.txt) among the inputs; leave it out")
    return [replace(file, lines=True) for file in files]


def refuse_packing(files: Sequence[File], packing: Packing) -> None:
    """ParameterError where none of the files can be written so: it would change nothing."""
    if not any(format_of(file).takes(packing) for file in files):
        raise ParameterError(
            f"compression is {packing.told()!r} and no input can be written so: Parquet files can with any codec, .gz"
            " and .zst files of JSON lines, CSV or text lines at a level of their own one; leave it out"
        )


def natural_id(files: Sequence[File]) -> str | None:
    """The column that documents are called by where nothing else is said, if all files have the same."""
    names = {format_of(file).natural_id for file in files}
    return names.pop() if len(names) == 1 else None


def find_files(inputs: Sequence[str], protected: Sequence[str] = (), streams: Streams | None = None) -> list[File]:
    """Every file of `protected`, which is only read, then every file of the INPUTs.

    INPUTs come as given, the files of a folder or glob by byte order of their relative path. In folders only known
    extensions count, and names that begin with `_` or `.` are skipped. Folders that a glob matches are taken whole, as
    when the shell gives each of them, but for `**`, which looks into them itself. What only describes a data set is
    left out, as is what `datasets` computed of one and keeps beside it. Standard input and named pipes given as INPUT
    are copied by `streams`, where there are such, and are what it makes of them. Raises InputError where nothing is
    found, a format is not known, a file is no regular one or is reached twice, two names would be told as one, or a
    file would have no place of its own in `data/`: that of another, or one outside.
    """
    files: list[File] = []
    described: list[File] = []
    computed: list[File] = []
    for given in (*protected, *inputs):
        if not given:  # of a variable of the shell that is not set
            raise InputError("an INPUT is empty; give a file, folder, glob or URL")
        if streams is not None and is_stream(given):
            found = [streams.take(given, tuple(FORMATS))]
        else:
            found = list(_remote(given) if "://" in given else _local(given))
        single = len(found) == 1 and found[0].name == given
        for file in found:
            refuse_irregular(file)
            format_of(file)
            refuse_outside(file)
        own, others = _without_computed(found)
        left = _documents(own)
        if single and not left:
            described += own
        elif not left:
            raise _describes(own[0]) if own else _is_computed(others[0])
        computed += others
        files += [replace(file, source=given) for file in left]
    if not files and (described or computed):
        raise _describes(described[0]) if described else _is_computed(computed[0])
    if computed:
        more = f" and {len(computed) - 1:,} more" if len(computed) > 1 else ""
        _log.warning("%s%s: `datasets` computed it of the data set beside it; left out", computed[0].name, more)
    for file in described:
        _log.warning("%s: describes a data set and holds no documents; it is left out", file.name)
    _refuse_twice(files)
    return told_apart(_placed(files, protected))


def _documents(found: Sequence[File]) -> list[File]:
    """The files but those that describe a data set, which the Arrow files beside or below them tell."""
    names = {os.path.basename(file.path) for file in found}
    if not names & {*OF_ONE, OF_SEVERAL}:
        return list(found)
    folders = {os.path.dirname(file.path) for file in found if file.path.endswith(".arrow")}
    above = {os.path.dirname(folder) for folder in folders}

    def is_document(file: File) -> bool:
        folder, name = os.path.split(file.path)
        if name in OF_ONE:
            return not (folder in folders or (file.filesystem is None and glob.glob(f"{glob.escape(folder)}/*.arrow")))
        if name == OF_SEVERAL:
            return not (folder in above or (file.filesystem is None and glob.glob(f"{glob.escape(folder)}/*/*.arrow")))
        return True

    return list(filter(is_document, found))


def _without_computed(found: Sequence[File]) -> tuple[list[File], list[File]]:
    """The files but those that `datasets` computed of the data set that lies beside them, and those."""
    named: dict[str, frozenset[str] | None] = {}
    kept: list[File] = []
    computed: list[File] = []
    for file in found:
        folder, name = os.path.split(file.path)
        of_cache = COMPUTED.fullmatch(name) is not None
        if of_cache and folder not in named:
            named[folder] = _data_files(file)
        own = named[folder] if of_cache else None
        (kept if own is None or name in own else computed).append(file)
    return kept, computed


def _data_files(beside: File) -> frozenset[str] | None:
    """The names of a data set's own files, as far as they are told where the file lies; None where none is told of."""
    for name in reversed(OF_ONE):
        other = replace(beside, path=os.path.join(os.path.dirname(beside.path), name))
        try:
            with other.open() as file:
                told = json.loads(file.read(STATE_BYTES))
            return frozenset(os.path.basename(entry["filename"]) for entry in told["_data_files"])
        except (ValueError, KeyError, TypeError, RecursionError):  # it tells of none
            return frozenset()
        except Exception:  # a storage service's own exceptions share no base
            continue
    return None


def _is_computed(file: File) -> InputError:
    return InputError(
        f"{file.name}: `datasets` computed it of the data set beside it; give the folder, or a copy that lies elsewhere"
    )


def _describes(file: File) -> InputError:
    return InputError(f"{file.name}: describes a data set and holds no documents; give the folder that it lies in")


def _placed(files: Sequence[File], protected: Sequence[str]) -> list[File]:
    """The files with their places in `data/`: below folders for each INPUT where there are several folders, or globs of
    several, or where two files would be in one place. INPUTs of one folder share one; files given by name from the
    folder that all others lie in need none.
    """
    written = [file for file in files if file.source not in protected]
    origins = {id(file): origin(file) for file in written}
    whole = {origins[id(file)] for file in written if file.name != file.source}  # folders that are taken, or looked in
    if len(whole) < 2 and _clash(written) is None:
        return list(files)
    top = above_all(origins.values())
    if top in whole:
        top = ()
    folders = own_folders({found for found in origins.values() if found != top})
    placed = [
        in_folder(folders[origins[id(file)]], file) if origins.get(id(file), top) != top else file for file in files
    ]
    for file in placed:
        refuse_outside(file)
    told = _clash([file for file in placed if file.source not in protected])
    if told is not None:
        raise InputError(told)
    return placed


def ending_of(path: str) -> str:
    """The end of a path that tells its format, as it is spelled there; empty where none does."""
    lower = path.lower()
    return next((path[-len(ending) :] for ending in FORMATS if lower.endswith(ending)), "")


def _format(path: str) -> Format | None:
    return FORMATS.get(ending_of(path).lower())


def _skipped(name: str) -> bool:
    return name.startswith(("_", "."))


def _in_byte_order(paths: Sequence[str]) -> list[str]:
    return sorted(paths, key=os.fsencode)


def _local(given: str) -> Iterator[File]:
    if os.path.isdir(given):
        for relative in _in_byte_order(list(_walk(given, "", ()))):
            yield File(os.path.join(given, relative), relative, os.path.join(given, relative))
        return
    if os.path.exists(given):
        yield File(given, os.path.basename(given), given)
        return
    if os.path.islink(given):
        raise _dangling(given)
    if not glob.has_magic(given):
        raise InputError(f"{given}: no such file or folder")
    # What stands before the first folder with a wildcard is the folder that the paths are relative to.
    base = given
    while glob.has_magic(base):
        base = os.path.dirname(base)
    found = []
    for path in glob.iglob(given, recursive=True):
        if not os.path.isdir(path):
            found.append(path)
        elif "**" not in given:
            found += [os.path.join(path, relative) for relative in _walk(path, "", ())]
    if not found:
        raise InputError(f"{given}: no file matches")
    for path in _in_byte_order(found):
        if not os.path.exists(path):
            raise _dangling(path)
        yield File(path, os.path.relpath(path, base or "."), path)


def _dangling(path: str) -> InputError:
    try:
        target = os.readlink(path)
    except OSError:
        return InputError(f"{path}: is gone since it was found; run again when nothing writes there")
    return InputError(f"{path}: is a link to {target}, which is not there; remove the link, or bring the file back")


def _walk(folder: str, relative: str, above: tuple[str, ...]) -> Iterator[str]:
    here = os.path.realpath(os.path.join(folder, relative))
    if here in above:
        raise InputError(f"{os.path.join(folder, relative)}: a link that leads back to a folder above it; remove it")
    found = False
    try:
        with os.scandir(os.path.join(folder, relative)) as entries:
            for entry in entries:
                path = os.path.join(relative, entry.name)
                if _skipped(entry.name):
                    continue
                if entry.is_dir():
                    for inner in _walk(folder, path, (*above, here)):
                        found = True
                        yield inner
                elif _format(entry.name) is not None:
                    if entry.is_symlink() and not os.path.exists(entry.path):
                        raise _dangling(entry.path)
                    found = True
                    yield path
    except OSError as error:
        raise InputError(f"{os.path.join(folder, relative)}: cannot be read: {error.strerror}") from error
    if not found and not above:
        raise InputError(f"{folder}: holds no file of a known format; {KNOWN}")


def _remote(given: str) -> Iterator[File]:
    try:
        import fsspec

        filesystem, path = fsspec.core.url_to_fs(given)
        yield from _found(given, filesystem, path)
    except InputError:
        raise
    except Exception as error:  # a storage service's own exceptions share no base
        told = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{given}: cannot be opened: {told}") from error


def _found(given: str, filesystem: Any, path: str) -> Iterator[File]:
    if filesystem.isdir(path):
        keys = [(_below(key, path), key) for key in _known(given, path, filesystem)]
        for relative, key in sorted(keys, key=lambda pair: tuple(map(os.fsencode, pair))):
            yield File(posixpath.join(given, relative), relative, key, filesystem)
    elif filesystem.exists(path):
        yield File(given, posixpath.basename(path), path, filesystem)
    elif glob.has_magic(path):
        base = path
        while glob.has_magic(base):
            base = posixpath.dirname(base)
        # As given up to the folder that holds the wildcard, protocol and all, and with the archive where it is in one.
        inner, *around = given.split("::")
        prefix = inner[: len(inner) - (len(path) - len(base))] if inner.endswith(path[len(base) :]) else base
        matches = []
        for found in filesystem.glob(path):
            if not filesystem.isdir(found):
                matches.append(found)
            elif "**" not in path:
                matches += _known(given, found, filesystem)
        if not matches:
            raise InputError(f"{given}: no file matches")
        for found in _in_byte_order(matches):
            relative = _below(found, base)
            yield File("::".join([posixpath.join(prefix, relative), *around]), relative, found, filesystem)
    else:
        raise InputError(f"{given}: no such file or folder")


def _known(given: str, folder: str, filesystem: Any) -> list[str]:
    """The keys in a folder that are of a known format and not skipped; InputError where there is none."""
    keys = [
        key
        for key in _without_climbing(given, folder, filesystem.find(folder))
        if _format(key) is not None and not any(map(_skipped, _below(key, folder).split("/")))
    ]
    if not keys:
        raise InputError(f"{given}: holds no file of a known format; {KNOWN}")
    return keys


def _without_climbing(given: str, folder: str, found: Iterable[str]) -> Iterator[str]:
    """The keys in a folder but those with a part `..`: they are skipped, as names that begin with a dot are, but nobody
    names a file like that without a purpose, so it is told.
    """
    for key in found:
        if climbs(_below(key, folder)):
            _log.warning("%s: skips %s, whose path leads out of its folder", given, key)
        else:
            yield key


def _below(key: str, folder: str) -> str:
    """A key's path below `folder`: as it is spelled where that leads elsewhere, otherwise without empty parts."""
    below = key.removeprefix(folder.rstrip("/") + "/")
    return below if climbs(below) else posixpath.normpath(below).lstrip("/")


def _identity(file: File) -> tuple[object, ...]:
    if file.filesystem is None:
        return (os.path.realpath(file.path),)
    return (id(file.filesystem), file.path)  # fsspec has one object for each store


def _refuse_twice(files: Sequence[File]) -> None:
    seen: dict[tuple[object, ...], File] = {}
    for file in files:
        other = seen.setdefault(_identity(file), file)
        if other is not file:
            how = "" if other.name == file.name else f", as {other.name} too"
            raise InputError(f"{file.name}: is reached twice{how}; give each file once")


def _clash(files: Sequence[File]) -> str | None:
    """Which two files would be in one place, in words; None where all have places of their own."""
    places: dict[str, File] = {}
    for file in files:
        other = places.setdefault(file.relative, file)
        if other is not file:
            return (
                f"{other.name} and {file.name} would both become data/{file.relative}; give the folder that holds both"
            )
    for file in files:
        above = os.path.dirname(file.relative)
        while above:
            if above in places:
                return f"data/{above} would be both {places[above].name} and the folder of {file.name}"
            above = os.path.dirname(above)
    return None
