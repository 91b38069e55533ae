"""From INPUTs as given (files, folders, globs, URLs) to files in the order that decides which document is first."""

from __future__ import annotations

import glob
import logging
import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpulsh.errors import InputError, ParameterError
from gpulsh.io.file import File, cannot_open, real_paths
from gpulsh.io.files.form import USUAL, Form
from gpulsh.io.files.no_documents import nothing_left, refuse_results, with_documents, without_computed
from gpulsh.io.files.pipes import Streams, is_stream, refuse_irregular
from gpulsh.io.files.places import climbs, distinct_names, refuse_outside, with_places
from gpulsh.io.formats.delimited import Delimited
from gpulsh.io.formats.endings import FORMATS, format_of, known_format, none_known
from gpulsh.io.formats.text import PlainText, TextLines, warn_of_lines
from gpulsh.io.packing import Packing

_log = logging.getLogger("gpulsh")


def refuse_unused(files: Sequence[File], form: Form) -> None:
    """ParameterError if an option of the form applies to no file.

    Without `lines`, warn of a text file that looks as if each line were a document.
    """
    formats = [format_of(file) for file in files]
    texts = [(file, kind) for file, kind in zip(files, formats, strict=True) if isinstance(kind, PlainText)]
    tables = any(isinstance(kind, Delimited) for kind in formats)
    if not form.lines:
        warn_of_lines([(file, kind) for file, kind in texts if not file.as_text])
    elif not any(isinstance(kind, TextLines) for kind in formats):
        raise ParameterError("lines is given, and there is no text file (.txt) among the inputs; leave it out")
    if form.as_text and not any(file.as_text for file in files):
        names = ", ".join(form.as_text)
        raise ParameterError(f"as_text is {names!r}, and no file of the inputs matches; leave it out")
    if form.delimiter is not None and not tables:
        raise ParameterError("delimiter is given, and there is no CSV or TSV file among the inputs; leave it out")
    if form.encoding is not None and not (texts or tables):
        raise ParameterError("encoding is given, and there is no CSV, TSV or text file among the inputs; leave it out")


def refuse_packing(files: Sequence[File], packing: Packing) -> None:
    """ParameterError if none of the files can be written so."""
    if not any(format_of(file).takes(packing) for file in files):
        raise ParameterError(
            f"compression is '{packing}', but no input can be written so: Parquet files take any codec; .gz"
            " and .zst files of JSON lines, CSV or text lines take their own codec at any level; leave it out"
        )


def natural_id(files: Sequence[File]) -> str | None:
    """The default id column, if all files have the same."""
    names = {format_of(file).natural_id for file in files}
    return names.pop() if len(names) == 1 else None


def find_files(
    inputs: Sequence[str],
    protected: Sequence[str] = (),
    streams: Streams | None = None,
    form: Form = USUAL,
    *,
    again: bool = False,
) -> list[File]:
    """Every file of `protected`, which is only read, then every file of the INPUTs.

    INPUTs come as given, the files of a folder or glob by byte order of their relative path. In folders only known
    extensions count, and names that begin with `_` or `.` are skipped. With patterns of texts in `form` only matching
    files count, and names that begin with `.` are skipped. Folders that a glob matches are taken whole, except by `**`,
    which searches them itself. Files that describe a data set, or that `datasets` computed from one, are left out.
    `streams` copies standard input and named pipes.

    Raises InputError if nothing is found, a format is not known, a file is not regular or is reached twice, a folder
    holds results of gpulsh, two names look the same in evidence, or a file has no place of its own in `data/`. `again`
    is for the INPUTs of an earlier run, for a glob may match its results now.
    """
    files: list[File] = []
    described: list[File] = []
    computed: list[File] = []
    for given in (*protected, *inputs):
        if not given:  # an unset variable of the shell
            raise InputError("an INPUT is empty; give a file, folder, glob or URL")
        if streams is not None and is_stream(given):
            found = [form.of(streams.take(given, tuple(FORMATS)))]
        else:
            found = list(map(form.of, _remote(given, form) if "://" in given else _local(given, form)))
        single = len(found) == 1 and found[0].name == given
        in_folder = os.path.isdir(given)  # which is searched for regular files
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
            raise nothing_left(own, others)
        computed += others
        files += left
    if not files and (described or computed):
        raise nothing_left(described, computed)
    if computed:
        more = f" and {len(computed) - 1:,} more" if len(computed) > 1 else ""
        _log.warning("%s%s: `datasets` computed it from the data set next to it; left out", computed[0].name, more)
    for file in described:
        _log.warning("%s: describes a data set and holds no documents; it is left out", file.name)
    if not again:
        refuse_results(files)
    _refuse_twice(files)
    return distinct_names(with_places(files, protected))


def _skipped(name: str, form: Form) -> bool:
    return name.startswith("." if form.as_text else ("_", "."))


def _counts(relative: str, form: Form) -> bool:
    """Whether a file of a folder is read, by its path there."""
    return form.is_text(relative) if form.as_text else known_format(relative) is not None


def _none_counts(given: str, form: Form, paths: Sequence[str]) -> InputError:
    """The error of a folder that holds only `paths`, which are not read."""
    if form.as_text:
        return InputError(f"{given}: holds no file that matches --as-text: {', '.join(form.as_text)}")
    return InputError(f"{given}: {none_known(paths)}")


def _in_byte_order(paths: Sequence[str]) -> list[str]:
    return sorted(paths, key=os.fsencode)


def _local(given: str, form: Form) -> Iterator[File]:
    if os.path.isdir(given):
        for relative in _in_byte_order(_folder(given, form)):
            path = os.path.join(given, relative)
            yield File(path, relative, path, source=given)
        return
    if os.path.exists(given):
        yield File(given, os.path.basename(given), given, source=given)
        return
    if os.path.islink(given):
        raise _dangling(given)
    if not glob.has_magic(given):
        raise InputError(f"{given}: no such file or folder")
    # Paths are relative to the folder before the first wildcard.
    base = given
    while glob.has_magic(base):
        base = os.path.dirname(base)
    found = []
    for path in glob.iglob(given, recursive=True):
        if not os.path.isdir(path):
            found.append(path)
        elif "**" not in given:
            found += [os.path.join(path, relative) for relative in _folder(path, form)]
    if not found:
        raise InputError(f"{given}: no file matches")
    for path in _in_byte_order(found):
        if not os.path.exists(path):
            raise _dangling(path)
        yield File(path, os.path.relpath(path, base or "."), path, source=given)


def _dangling(path: str) -> InputError:
    try:
        target = os.readlink(path)
    except OSError:
        return InputError(f"{path}: is gone since it was found; run again when nothing writes there")
    return InputError(f"{path}: is a link to {target}, which is not there; remove the link, or bring the file back")


def _folder(folder: str, form: Form) -> list[str]:
    """The files of a folder that are read, by their paths in it; InputError if there are none."""
    others: list[str] = []
    found = list(_walk(folder, "", (), form, others))
    if not found:
        raise _none_counts(folder, form, others)
    return found


def _walk(folder: str, relative: str, above: tuple[str, ...], form: Form, others: list[str]) -> Iterator[str]:
    """The files that are read; the others are appended to `others`."""
    here = os.path.realpath(os.path.join(folder, relative))
    if here in above:
        raise InputError(f"{os.path.join(folder, relative)}: a link that leads back to a folder above it; remove it")
    try:
        with os.scandir(os.path.join(folder, relative)) as entries:
            for entry in entries:
                path = os.path.join(relative, entry.name)
                if _skipped(entry.name, form):
                    continue
                if entry.is_dir():
                    yield from _walk(folder, path, (*above, here), form, others)
                elif not _counts(path, form):
                    others.append(path)
                elif entry.is_symlink() and not os.path.exists(entry.path):
                    raise _dangling(entry.path)
                else:
                    if not entry.is_file(follow_symlinks=False):
                        refuse_irregular(File(entry.path, path, entry.path))
                    yield path
    except OSError as error:
        raise InputError(f"{os.path.join(folder, relative)}: cannot be read: {error.strerror}") from error


def _remote(given: str, form: Form) -> Iterator[File]:
    try:
        import fsspec
        from fsspec.implementations.local import LocalFileSystem

        filesystem, path = fsspec.core.url_to_fs(given)
        found = _found(given, filesystem, path, form)
        if isinstance(filesystem, LocalFileSystem):  # file:// is another name of a path
            found = (replace(file, filesystem=None) for file in found)
        yield from found
    except InputError:
        raise
    except Exception as error:
        raise cannot_open(given, error) from error


def _found(given: str, filesystem: Any, path: str, form: Form) -> Iterator[File]:
    if filesystem.isdir(path):
        keys = [(_below(key, path), key) for key in _known(given, path, filesystem, form)]
        for relative, key in sorted(keys, key=lambda pair: tuple(map(os.fsencode, pair))):
            yield File(posixpath.join(given, relative), relative, key, filesystem, given)
    elif filesystem.exists(path):
        yield File(given, posixpath.basename(path), path, filesystem, given)
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
                matches += _known(given, found, filesystem, form)
        if not matches:
            raise InputError(f"{given}: no file matches")
        for found in _in_byte_order(matches):
            relative = _below(found, base)
            yield File("::".join([posixpath.join(prefix, relative), *around]), relative, found, filesystem, given)
    else:
        raise InputError(f"{given}: no such file or folder")


def _known(given: str, folder: str, filesystem: Any, form: Form) -> list[str]:
    """The keys in a folder that are read, without those with a part `..`; InputError if there are none."""
    below: dict[str, str] = {}
    for key in filesystem.find(folder):
        path = _below(key, folder)
        if climbs(path):
            _log.warning("%s: skips %s, whose path leads out of its folder", given, key)
        else:
            below[key] = path
    seen = [key for key, path in below.items() if not any(_skipped(part, form) for part in path.split("/"))]
    keys = [key for key in seen if _counts(below[key], form)]
    if not keys:
        raise _none_counts(given, form, seen)
    return keys


def _below(key: str, folder: str) -> str:
    """A key's path below `folder`, without empty parts unless it leads elsewhere."""
    below = key.removeprefix(folder.rstrip("/") + "/")
    return below if climbs(below) else posixpath.normpath(below).lstrip("/")


def _refuse_twice(files: Sequence[File]) -> None:
    real = real_paths()
    seen: dict[tuple[int, str], File] = {}
    for file in files:
        path = real(file.path) if file.filesystem is None else file.path
        other = seen.setdefault((id(file.filesystem), path), file)  # fsspec has one object for each store
        if other is not file:
            how = "" if other.name == file.name else f", as {other.name} too"
            raise InputError(f"{file.name}: is reached twice{how}; give each file once")
