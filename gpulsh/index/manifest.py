"""The state of an index on disk: one manifest that names immutable files, replaced as a whole by each commit.

A reader reads the manifest once and then holds the files open, so that its view never changes. A commit writes new
files first and the manifest last, so that a crash at any instant leaves the state before or after it. Only `sweep`
removes files that no manifest names any more.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpulsh.errors import InputError
from gpulsh.index.evidence.places import Source
from gpulsh.index.segment import StoredSegment, file_name
from gpulsh.params import SCHEME, EvidenceName
from gpulsh.store.durable import FileFact, fact_of
from gpulsh.store.manifest import file_facts, read_checked, write_checked

NAME = "index.json"
LOCK = "lock"
# Of most indexes, of those with signatures of bits, of those by containment, and of those with evidence at the source:
# only with 64-bit numbers, and with numbers of 32 bits, too. CHANGELOG.md lists the changes.
FORMAT, OF_BITS, OF_CONTAINMENT, AT_SOURCE_WIDE, AT_SOURCE = 3, 4, 5, 6, 7
KNOWN_FILES = re.compile(
    r"(documents|digests|hashes|fingerprints|filters|keys|places|removed|groups|key-groups)-[0-9a-f-]+\.arrow(\.[0-9a-f]+\.part)?"
    r"|index\.json\.[0-9a-f]+\.part"
)


@dataclass(frozen=True)
class Manifest:
    """The contents of `index.json`. `removed` is the file with the numbers of removed documents, if there are any.

    `runs` are those whose documents were added, so that an interrupted run finds out whether it has committed.
    """

    parameters: Mapping[str, Any]
    secret: str = field(repr=False)  # 256 bits in hexadecimal; the index's evidence is computed under it
    generation: int = 0  # commits so far
    next_number: int = 0  # of the next document
    keys: str | None = None  # "string" or "integer"; None before the first key
    segments: tuple[StoredSegment, ...] = ()
    removed: StoredSegment | None = None
    runs: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by name: first number, beyond the last
    groups: Mapping[str, FileFact] = field(default_factory=dict)  # files of filters, which can be made again
    evidence: EvidenceName = "index"
    sources: tuple[Source, ...] = ()  # of the texts, with evidence at the source

    def files(self) -> dict[str, FileFact]:
        """All files that it names."""
        return {**self.needed(), **self.groups}

    def needed(self) -> dict[str, FileFact]:
        """The files without which the index cannot be read."""
        parts = [*self.segments, *([self.removed] if self.removed else [])]
        return {file_name(kind, part.name): fact for part in parts for kind, fact in part.files.items()}


def has_index(folder: Path) -> bool:
    """Whether the folder has a manifest."""
    return os.path.lexists(folder / NAME)


def commits_in(folder: str | os.PathLike[str]) -> int:
    """How many commits the folder has."""
    return read_manifest(Path(folder)).generation if has_index(Path(folder)) else 0


def read_manifest(folder: Path) -> Manifest:
    """The newest commit; InputError if there is none, or if this version cannot read it."""
    path = folder / NAME
    _refuse_link(path)
    try:
        found = json.loads(read_checked(path))
    except (FileNotFoundError, NotADirectoryError):
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise InputError(f"{folder}: is not a folder; give the folder of an index") from None
        what = "is not an index" if os.path.isdir(folder) else "no such folder"
        raise InputError(f"{folder}: {what}; make an index with `gpulsh index build`, or Index.save") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {os.strerror(error.errno or 0)}") from error
    for name, own in (("format", (FORMAT, OF_BITS, OF_CONTAINMENT, AT_SOURCE_WIDE, AT_SOURCE)), ("scheme", (SCHEME,))):
        if found[name] not in own:
            raise InputError(
                f"{folder}: is an index of {name} {found[name]}, written by gpulsh {found['version']}, and this version"
                f" reads {name} {' or '.join(map(str, own))}; use that version, or build the index again"
            )
    return Manifest(
        parameters=found["parameters"],
        secret=found["secret"],
        generation=found["generation"],
        next_number=found["next_number"],
        keys=found["keys"],
        segments=tuple(map(_segment, found["segments"])),
        removed=_segment(found["removed"]) if found["removed"] else None,
        runs={name: (first, stop) for name, (first, stop) in found.get("runs", {}).items()},
        groups=file_facts(found.get("groups", {})),
        evidence=found.get("evidence", "index"),
        sources=tuple(Source(*source) for source in found.get("sources", ())),
    )


def _segment(found: Mapping[str, Any]) -> StoredSegment:
    return StoredSegment(found["name"], file_facts(found["files"]))


def commit_manifest(folder: Path, manifest: Manifest, version: str) -> None:
    """Make it the newest commit, for its owner alone, after its files. `version` appears only in messages."""
    form = FORMAT
    if manifest.evidence == "source":
        form = AT_SOURCE
    elif "near" in manifest.parameters:
        form = OF_BITS
    elif "measure" in manifest.parameters:
        form = OF_CONTAINMENT
    written = {"version": version, "format": form, "scheme": SCHEME, "checksum": "crc32", **asdict(manifest)}
    write_checked(folder / NAME, json.dumps(written, sort_keys=True, indent=1).encode() + b"\n")


def damage(path: Path, fact: FileFact, *, contents: bool) -> str | None:
    """The difference between a file and its fact, by its content if `contents`; None if there is none."""
    try:
        _refuse_link(path)
        size = path.stat().st_size
    except FileNotFoundError:
        return "is missing"
    if size != fact.size:
        return f"is damaged, it has {size} bytes and was written with {fact.size}"
    return "is damaged, its CRC-32 differs" if contents and fact_of(path) != fact else None


def sweep(folder: Path, manifest: Manifest) -> None:
    """Remove the index's files that the manifest does not name: replaced files, and files of killed writers."""
    named = manifest.files()
    for name in os.listdir(folder):
        if name not in named and KNOWN_FILES.fullmatch(name):
            os.unlink(folder / name)


def _refuse_link(path: Path) -> None:
    """InputError for a link, which leads elsewhere, or a pipe, which may never end."""
    with_link = path.lstat().st_mode if os.path.lexists(path) else stat.S_IFREG
    if not stat.S_ISREG(with_link):
        kind = "a link" if stat.S_ISLNK(with_link) else "not a file"
        raise InputError(f"{path}: is {kind}, which gpulsh did not make; put the file itself there")
