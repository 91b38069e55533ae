"""From INPUTs as given (files, folders, globs, URLs) to files in the order that decides which document is first."""

from __future__ import annotations

import glob
import logging
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpulsh.errors import InputError, ParameterError
from gpulsh.io.file import File, real_paths
from gpulsh.io.files.no_documents import no_documents_left, refuse_results, with_documents, without_computed
from gpulsh.io.files.pipes import Streams, is_stream, refuse_irregular
from gpulsh.io.files.places import has_parent_parts, refuse_outside, with_distinct_names, with_places
from gpulsh.io.files.read_options import DEFAULTS, ReadOptions
from gpulsh.io.formats.delimited import Delimited
from gpulsh.io.formats.endings import FORMATS, format_of, known_format, no_known_format
from gpulsh.io.formats.text import PlainText, TextLines, warn_of_lines
from gpulsh.io.output_codec import OutputCodec
from gpulsh.io.urls import CACHES, WEB, cannot_open, without_query

LOGS_OF_TABLES = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}  # hidden folders that list the current files
ICEBERG = re.compile(r"(?:^|/)metadata/(?:v\d+|\d+-[\da-f-]{36})(?:\.gz)?\.metadata\.json(?:\.gz)?")  # files that do so
CHAIN = re.compile(rf"((?:(?:{'|'.join(CACHES)})::)*)(.*?)((?:::.*)?)", re.DOTALL)  # of URLs: caches, path, archive

_log = logging.getLogger("gpulsh")


def refuse_unused(files: Sequence[File], options: ReadOptions) -> None:
    """ParameterError if one of the options applies to no file.

    Without `lines`, warn of a text file that looks as if each line were a document.
    """
    formats = [format_of(file) for file in files]
    texts = [(file, kind) for file, kind in zip(files, formats, strict=True) if isinstance(kind, PlainText)]
    tables = any(isinstance(kind, Delimited) for kind in formats)
    if not options.lines:
        warn_of_lines([(file, kind) for file, kind in texts if not file.as_text])
    elif not any(isinstance(kind, TextLines) for kind in formats):
        raise ParameterError("--lines is given, and no INPUT has a text file (.txt); leave it out")
    if options.as_text and not any(file.as_text for file in files):
        names = ", ".join(options.as_text)
        raise ParameterError(f"--as-text is {names!r}, and no file of an INPUT matches; leave it out")
    if options.delimiter is not None and not tables:
        raise ParameterError("--delimiter is given, and no INPUT has a CSV or TSV file; leave it out")
    if options.encoding is not None and not (texts or tables):
        raise ParameterError("--encoding is given, and no INPUT has a CSV, TSV or text file; leave it out")


def refuse_codec(files: Sequence[File], codec: OutputCodec) -> None:
    """ParameterError if none of the files can be written so."""
    if not any(format_of(file).takes_codec(codec) for file in files):
        raise ParameterError(
            f"--compression is '{codec}', which no INPUT takes: Parquet takes any codec, .gz and .zst files only a"
            " level of their own; leave it out"
        )


def natural_id(files: Sequence[File]) -> str | None:
    """The default id column, if all files have the same."""
    names = {format_of(file).natural_id for file in files}
    return names.pop() if len(names) == 1 else None


def find_files(
    inputs: Sequence[str],
    protected: Sequence[str] = (),
    streams: Streams | None = None,
    options: ReadOptions = DEFAULTS,
    *,
    again: bool = False,
) -> list[File]:
    """Every file of `protected`, which is only read, then every file of the INPUTs.

    INPUTs come as given, the files of a folder or glob by byte order of their relative path. In folders only known
    extensions count, and names that begin with `_` or `.` are skipped. With `options.as_text` only matching files
    count, and names that begin with `.` are skipped. Folders that a glob matches are taken whole, except by `**`,
    which searches them itself. Files that describe a data set, or that `datasets` computed from one, are left out.
    `streams` copies standard input and named pipes.

    Raises InputError if nothing is found, a format is not known, a file is not regular or is given twice, a folder
    holds results of gpulsh, two names look the same in evidence, or a file has no place of its own in `data/`. `again`
    is for the INPUTs of an earlier run, because a glob may match its results now.
    """
    files: list[File] = []
    described: list[File] = []
    computed: list[File] = []
    for given in (*protected, *inputs):
        if not given:  # an unset variable of the shell
            what = "--protect" if given in protected else "an INPUT"
            raise InputError(f"{what} is empty; give a file, folder, glob or URL")
        if streams is not None and is_stream(given):
            found = [options.applied_to(streams.take(given, tuple(FORMATS)))]
        else:
            found = list(map(options.applied_to, _find_input(given, options)))
        single = len(found) == 1 and found[0].name == given
        in_folder = os.path.isdir(given)  # a folder is searched for regular files
        for file in found:
            if not in_folder:
                refuse_irregular(file)
            format_of(file)
            refuse_outside(file)
        own, others = without_computed(found)
        left = with_documents(own)
        if single and not left:
            described += own
        elif not left:
            raise no_documents_left(own, others)
        computed += others
        files += left
    if not files and (described or computed):
        raise no_documents_left(described, computed)
    if computed:
        more = f" and {len(computed) - 1:,} more" if len(computed) > 1 else ""
        _log.warning("%s%s: `datasets` computed it from the data set next to it; left out", computed[0].name, more)
    for file in described:
        _log.warning("%s: describes a data set and holds no documents; it is left out", file.name)
    if not again:
        refuse_results(files)
    _refuse_twice(files)
    return with_distinct_names(with_places(files, protected))


def _find_input(given: str, options: ReadOptions) -> list[File]:
    """The files that an INPUT names."""
    if "://" not in given:
        return _find_at(given, given, None, options)
    try:
        import fsspec
        from fsspec.implementations.local import LocalFileSystem

        filesystem, path = fsspec.core.url_to_fs(given)
        found = _find_at(given, path, filesystem, options)
    except InputError:
        raise
    except Exception as error:
        raise cannot_open(given, error) from error
    # file:// is another name of a path
    return [replace(file, filesystem=None) for file in found] if isinstance(filesystem, LocalFileSystem) else found


def _find_at(given: str, path: str, filesystem: Any, options: ReadOptions) -> list[File]:
    """The files of an INPUT at `path`, on this machine where `filesystem` is None."""
    at = os.path if filesystem is None else filesystem
    plain = path if filesystem is None else without_query(path)

    def in_folder(folder: str) -> list[tuple[str, str]]:
        return _local_files(folder, options) if filesystem is None else _store_files(given, folder, filesystem, options)

    # fsspec finds out by reading a web page whole, or any file without a stated type, as a list of files.
    is_file = plain.startswith(WEB) and (known_format(plain) is not None or options.is_text(plain))
    file = File(given, posixpath.basename(plain), path, filesystem, given)
    if not is_file and at.isdir(path):
        base, found = path, in_folder(path)
    elif at.exists(path) or (filesystem is not None and not glob.has_magic(plain) and file.exists()):
        return [file]
    else:
        base, found = _find_matches(given, path, filesystem, in_folder)
    if filesystem is None:  # a name and a path are one string: there may be a million
        return [File(key, relative, key, source=given) for relative, key in found]
    pattern = path[len(base) :]  # which the URL of the folder before it lacks
    return [File(_url(given, relative, pattern), relative, key, filesystem, given) for relative, key in found]


def _find_matches(
    given: str, path: str, filesystem: Any, in_folder: Callable[[str], list[tuple[str, str]]]
) -> tuple[str, list[tuple[str, str]]]:
    """The folder before the first wildcard of a glob, and the files that match, relative to it, with their paths."""
    is_local = filesystem is None
    at = os.path if is_local else filesystem
    if is_local:
        if os.path.islink(path):
            raise _dangling_link(path)
        _refuse_closed(path)
    plain = path if is_local else without_query(path)
    if not glob.has_magic(plain):
        raise InputError(f"{given}: no such file or folder")
    base = path
    while glob.has_magic(base):
        base = posixpath.dirname(base)
    keys: list[str] = []
    for match in glob.iglob(path, recursive=True) if is_local else filesystem.glob(path):
        if not at.isdir(match):
            keys.append(match)
        elif "**" not in path:
            keys += [key for _, key in in_folder(match)]
    if not keys:
        raise InputError(f"{given}: no file matches")
    keys.sort(key=os.fsencode)
    if is_local and (lost := next((key for key in keys if not os.path.exists(key)), None)):
        raise _dangling_link(lost)
    return base, [(os.path.relpath(key, base or ".") if is_local else _relative_key(key, base), key) for key in keys]


def _url(given: str, relative: str, pattern: str = "") -> str:
    """The URL of a file below the folder of a URL that ends in `pattern`, with the same cache and archive.

    >>> (
    ...     _url("simplecache::s3://lake/*/*.jsonl", "a/b.jsonl", "/*/*.jsonl"),
    ...     _url("zip::s3://lake/a.zip", "b.jsonl"),
    ... )
    ('simplecache::s3://lake/a/b.jsonl', 'zip://b.jsonl::s3://lake/a.zip')
    """
    chain = CHAIN.fullmatch(given)
    assert chain is not None
    cache, inner, archive = chain.groups()
    if "://" not in inner:  # the whole archive
        inner += "://"
    folder = inner.rstrip("/").removesuffix(pattern) if pattern else inner
    return f"{cache}{posixpath.join(folder, relative)}{archive}"


def _refuse_closed(path: str) -> None:
    """InputError if this user may not search a folder on the way to a path or a match: glob leaves it out."""
    if path.endswith("**"):  # which matches all folders below, too
        path += "/"
    while folder := os.path.dirname(path).rstrip("/"):
        listed = "**" in folder or glob.has_magic(os.path.basename(path))
        for match in glob.iglob(folder, recursive=True):
            if os.path.isdir(match) and not os.access(match, os.X_OK | (os.R_OK if listed else 0), effective_ids=True):
                raise InputError(f"{match}: cannot be read: Permission denied")
        path = folder


def _dangling_link(path: str) -> InputError:
    try:
        target = os.readlink(path)
    except OSError:
        return InputError(f"{path}: is gone since it was found; run again when nothing writes there")
    return InputError(f"{path}: is a broken link to {target}; remove the link, or bring the file back")


def _local_files(folder: str, options: ReadOptions) -> list[tuple[str, str]]:
    """The files of a folder that are read: their paths in it, and their paths."""
    odd = set[str]()
    found = [(path, os.path.join(folder, path)) for path in _read(folder, _walk(folder, "", (), options, odd), options)]
    for relative, path in found if odd else ():
        if relative in odd and not os.path.exists(path):
            raise _dangling_link(path)
        if relative in odd:
            refuse_irregular(File(path, relative, path))
    return found


def _walk(folder: str, relative: str, above: tuple[str, ...], options: ReadOptions, odd: set[str]) -> Iterator[str]:
    """All files of a folder except hidden ones; adds those that are not regular files to `odd`."""
    here = os.path.realpath(os.path.join(folder, relative))
    if here in above:
        raise InputError(f"{os.path.join(folder, relative)}: a link that leads back to a folder above it; remove it")
    try:
        with os.scandir(os.path.join(folder, relative)) as entries:
            for entry in entries:
                path = os.path.join(relative, entry.name)
                if entry.name.startswith(_hidden_prefixes(options)):
                    if entry.name in LOGS_OF_TABLES and not options.as_text:
                        raise _is_table(os.path.dirname(entry.path), LOGS_OF_TABLES[entry.name])
                    continue
                if entry.is_dir():
                    yield from _walk(folder, path, (*above, here), options, odd)
                    continue
                if not entry.is_file(follow_symlinks=False):
                    odd.add(path)
                yield path
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _is_table(folder: str, kind: str) -> InputError:
    return InputError(
        f"{folder}: is a table of {kind}, and its files also have rows that were deleted or replaced; export the table,"
        " or give the files of its current version"
    )


def _hidden_prefixes(options: ReadOptions) -> tuple[str, ...]:
    """How names that are skipped begin."""
    return (".",) if options.as_text else ("_", ".")


def _read(given: str, paths: Iterable[str], options: ReadOptions) -> list[str]:
    """The paths in a folder that are read, in byte order; InputError if there are none."""
    found, others = list[str](), list[str]()
    for path in paths:
        if ICEBERG.search(path) and not options.as_text:
            raise _is_table(given, "Iceberg")
        is_read = options.is_text(path) if options.as_text else known_format(path) is not None
        (found if is_read else others).append(path)
    if found:
        return sorted(found, key=os.fsencode)
    if options.as_text:
        raise InputError(f"{given}: holds no file that matches --as-text: {', '.join(options.as_text)}")
    raise InputError(f"{given}: {no_known_format(others)}")


def _store_files(given: str, folder: str, filesystem: Any, options: ReadOptions) -> list[tuple[str, str]]:
    """The files of a folder of a store that are read: paths in it, and keys. Keys with a part `..` are left out."""
    below: dict[str, list[str]] = {}
    for key in filesystem.find(folder):
        path = _relative_key(key, folder)
        if has_parent_parts(path):
            _log.warning("%s: left out %s, because its path leads out of the folder", given, key)
        elif hidden := [part for part in path.split("/") if part.startswith(_hidden_prefixes(options))]:
            if hidden[0] in LOGS_OF_TABLES and not options.as_text:
                raise _is_table(given, LOGS_OF_TABLES[hidden[0]])
        else:
            below.setdefault(path, []).append(key)
    return [(path, key) for path in _read(given, below, options) for key in sorted(below[path], key=os.fsencode)]


def _relative_key(key: str, folder: str) -> str:
    """A key's path below `folder`, without empty parts unless it leads elsewhere."""
    below = key.removeprefix(folder.rstrip("/") + "/")
    return below if has_parent_parts(below) else posixpath.normpath(below).lstrip("/")


def _refuse_twice(files: Sequence[File]) -> None:
    real = real_paths()
    seen: dict[tuple[int, str], File] = {}
    for file in files:
        path = real(file.path) if file.filesystem is None else file.path
        other = seen.setdefault((id(file.filesystem), path), file)  # fsspec has one object for each store
        if other is not file:
            how = "" if other.name == file.name else f", also as {other.name}"
            raise InputError(f"{file.name}: is given twice{how}; give each file once")
