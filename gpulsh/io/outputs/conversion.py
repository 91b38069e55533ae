"""Which format a file's kept rows are written in: its own, byte for byte, or the one that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Unpack

from gpulsh.errors import InputError, ParameterError
from gpulsh.io.columns import Columns
from gpulsh.io.compression import Compression
from gpulsh.io.file import File
from gpulsh.io.format import Mask, Writing
from gpulsh.io.formats.endings import COMPRESSIONS, ending_of, format_of
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.parquet import Parquet
from gpulsh.io.outputs.json_lines import json_lines
from gpulsh.io.outputs.row_groups import write_row_groups
from gpulsh.io.packing import Packing, packed_writer

FormatName = Literal["parquet", "jsonl"]
STREAMS: dict[str, Compression] = {"none": "", "gzip": "gz", "zstd": "zst"}  # what packs JSON lines


def refuse_stream_packing(packing: Packing) -> None:
    """ParameterError where no JSON lines are packed so."""
    if packing.codec not in STREAMS:
        raise ParameterError(f"compression is '{packing}', and format 'jsonl'; give one of {', '.join(STREAMS)}")


def renamed(files: Sequence[File], name: FormatName, packing: Packing | None) -> list[File]:
    """The files with the places that they have in `data/` in the format `name`.

    InputError where two would have the same.
    """
    found = [_renamed(file, name, packing) for file in files]
    places: dict[str, File] = {}
    for file in found:
        other = places.setdefault(file.relative, file)
        if other is not file:
            raise InputError(
                f"{file.name}: would become data/{file.relative} in format {name!r}, as {other.name} does; rename one"
            )
    return found


def _renamed(file: File, name: FormatName, packing: Packing | None) -> File:
    if _is_in(file, name, packing):
        return file
    stem = file.relative.removesuffix(ending_of(file.relative))
    packed = _compression(file, packing) if name == "jsonl" else ""
    return replace(file, relative=f"{stem}.{name}.{packed}".rstrip("."))


def write_kept(
    name: FormatName | None, columns: Columns, file: File, keep: Mask, target: str, **how: Unpack[Writing]
) -> None:
    """As `Format.write_kept`, in the format `name`. Nothing is written where nothing is kept in another format."""
    kind, packing = format_of(file), how.get("packing")
    if name is None or _is_in(file, name, packing):
        kind.write_kept(file, keep, target, **how)
    elif not keep.any():
        return
    elif name == "parquet":
        write_row_groups(file, kind.kept(file, keep, **how), target, packing)
    else:
        with packed_writer(target, _compression(file, packing), packing.level if packing else None) as out:
            if isinstance(kind, JsonLines):
                kind.write_lines(file, keep, out, how.get("limit"))
            else:
                for content in json_lines(file, kind.kept(file, keep, **how), columns, how.get("limit")):
                    out.write(content)


def _is_in(file: File, name: FormatName, packing: Packing | None) -> bool:
    """Whether the file's own format, packed as asked for, is what is asked for."""
    kind = format_of(file)
    if name == "parquet":
        return isinstance(kind, Parquet)
    return type(kind) is JsonLines and kind.compression == _compression(file, packing)


def _compression(file: File, packing: Packing | None) -> Compression:
    """How JSON lines are packed: as asked for, otherwise as the file is."""
    if packing is not None:
        return STREAMS[packing.codec]
    lower = file.path.lower()
    return next((each for each in COMPRESSIONS if each and lower.endswith(f".{each}")), "")
