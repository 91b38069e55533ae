"""The folders that `datasets` saves: which of their files hold documents, and which only describe or repeat them."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace

from gpulsh.errors import InputError
from gpulsh.io.file import File

# What `datasets` writes beside the Arrow files of a data set, and above those of several: no documents.
OF_ONE, OF_SEVERAL = ("dataset_info.json", "state.json"), "dataset_dict.json"
# And what it computed of it since, a copy of each document as a rule.
COMPUTED = re.compile(r"cache-[0-9a-f]{16}(_[0-9]+_of_[0-9]+)?\.arrow")
STATE_BYTES = 16 << 20  # of state.json, which names the data set's own files


def with_documents(found: Sequence[File]) -> list[File]:
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


def without_computed(found: Sequence[File]) -> tuple[list[File], list[File]]:
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


def computed_error(file: File) -> InputError:
    """The error of what was computed of a data set, where there is nothing else."""
    return InputError(
        f"{file.name}: `datasets` computed it of the data set beside it; give the folder, or a copy that lies elsewhere"
    )


def description_error(file: File) -> InputError:
    """The error of a file that describes a data set, where there is nothing else."""
    return InputError(f"{file.name}: describes a data set and holds no documents; give the folder that it lies in")
