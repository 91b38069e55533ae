"""Files of a folder that hold no documents: results of gpulsh, and files that `datasets` writes next to a data set."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from gpulsh.errors import InputError
from gpulsh.io.file import File

EVIDENCE, COUNTED, REPORT, DATA = "duplicates.parquet", "clusters.parquet", "report.json", "data"  # of the OUT of a run
PASSAGES, SHORT = "passages.parquet", "short.parquet"
COMMANDS = {EVIDENCE: "dedup", PASSAGES: "passages", SHORT: "cut"}  # which write them, with REPORT
MARK = "gpulsh"  # the first key of report.json
_HEAD = re.compile(rb'\s*\{\s*"%b"\s*:' % MARK.encode())
_HEAD_BYTES = 64

# `datasets` writes these next to a data set's Arrow files, and the last one above several data sets.
OF_ONE, OF_SEVERAL = ("dataset_info.json", "state.json"), "dataset_dict.json"
OF_REPOSITORY = "dataset_infos.json"  # above the files of a data set of any format, as the Hub has it
# It keeps computed columns in these, as a rule a copy of each document.
COMPUTED = re.compile(r"cache-[0-9a-f]{16}(_[0-9]+_of_[0-9]+)?\.arrow")
STATE_BYTES = 16 << 20  # of state.json, which names the data set's own files


def refuse_results(files: Sequence[File]) -> None:
    """InputError if a folder of results of gpulsh is among the files, and not only its `data/`."""
    folders: dict[tuple[int, str], dict[str, File]] = {}
    for file in files:
        folder, name = os.path.split(file.path)
        if name in COMMANDS or name == REPORT:
            folders.setdefault((id(file.filesystem), folder), {})[name] = file
    for (_, folder), found in folders.items():
        report, head = found.get(REPORT), b""
        command = next((command for name, command in COMMANDS.items() if name in found), None)
        if command is None or report is None:
            continue
        with suppress(Exception), report.open() as opened:  # one that cannot be read is an error later
            head = opened.read(_HEAD_BYTES)
        if not _HEAD.match(head):
            continue
        shown, kept = os.path.dirname(report.name) or ".", os.path.join(folder, DATA, "")
        if shown != report.source.rstrip("/"):
            advice = f"move it out of {report.source}"
        elif any(file.path.startswith(kept) for file in files):
            advice = f"give {shown}/{DATA}, which holds the documents"
        else:
            advice = "give the INPUT of that run, it wrote no documents"
        raise InputError(f"{shown}: holds the results of `gpulsh {command}`; {advice}")


def with_documents(found: Sequence[File]) -> list[File]:
    """Leave out files that describe a data set: its files are in the same folder or below."""
    names = {os.path.basename(file.path) for file in found}
    if not names & {*OF_ONE, OF_SEVERAL, OF_REPOSITORY}:
        return list(found)
    folders = {os.path.dirname(file.path) for file in found if file.path.endswith(".arrow")}
    above = {os.path.dirname(folder) for folder in folders}

    def describes(file: File) -> bool:
        folder, name = os.path.split(file.path)
        if name == OF_REPOSITORY:
            return any(other is not file and other.path.startswith(os.path.join(folder, "")) for other in found)
        if name not in (*OF_ONE, OF_SEVERAL):
            return False
        known, below = (folders, "*.arrow") if name in OF_ONE else (above, "*/*.arrow")
        return folder in known or (file.filesystem is None and bool(glob.glob(f"{glob.escape(folder)}/{below}")))

    return [file for file in found if not describes(file)]


def without_computed(found: Sequence[File]) -> tuple[list[File], list[File]]:
    """The files without those that `datasets` computed from the data set next to them, and the computed files."""
    named: dict[str, frozenset[str] | None] = {}
    kept: list[File] = []
    computed: list[File] = []
    for file in found:
        folder, name = os.path.split(file.path)
        is_cache = COMPUTED.fullmatch(name) is not None
        if is_cache and folder not in named:
            named[folder] = _data_files(file)
        own = named[folder] if is_cache else None
        (kept if own is None or name in own else computed).append(file)
    return kept, computed


def _data_files(description: File) -> frozenset[str] | None:
    """The names of a data set's own files, from its description in that folder; None if there is none."""
    for name in reversed(OF_ONE):
        other = replace(description, path=os.path.join(os.path.dirname(description.path), name))
        try:
            with other.open() as file:
                state = json.loads(file.read(STATE_BYTES))
            return frozenset(os.path.basename(entry["filename"]) for entry in state["_data_files"])
        except InputError:  # it is not there
            continue
        except (ValueError, KeyError, TypeError, RecursionError):  # it names no files
            return frozenset()
        except Exception:  # a storage service's own exceptions share no base
            continue
    return None


def no_documents_left(described: Sequence[File], computed: Sequence[File]) -> InputError:
    """The error where only descriptions of data sets, or computed files, were found."""
    if described:
        name = described[0].name
        return InputError(f"{name}: describes a data set and holds no documents; give its folder")
    return InputError(
        f"{computed[0].name}: `datasets` computed it from the data set next to it; give the folder, or a copy in"
        " another folder"
    )
