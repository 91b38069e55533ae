"""`--index` of `passages_files`: a folder that holds the samples of all earlier runs, and the places of their texts.

`passages.json` names the files of each run, and is replaced as a whole when a run joins. So a crash leaves the state
before or after it. A run has a random name, which is also in its work folder. So a resumed run finds out whether it has
joined. Texts are not copied; they are read again if a new document may repeat them.

The folder is for its owner alone, and one run at a time.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from gpulsh import __version__
from gpulsh.errors import InputError, OutputError, ParameterError
from gpulsh.index.evidence.places import Source
from gpulsh.index.evidence.texts import file_of
from gpulsh.index.folder import PASSAGES, damage
from gpulsh.io.file import SHARED, File, Stamp
from gpulsh.io.files.file_texts import Partition, Piece
from gpulsh.io.format import Part
from gpulsh.io.stamps import Stamps
from gpulsh.params import SCHEME
from gpulsh.run.job import JOIN
from gpulsh.run.passages.job import HeldRun, IndexContents, PassagesJob
from gpulsh.run.passages.tables import PLACES, REST, SAMPLES, SampleRows
from gpulsh.store.columns import columns_file
from gpulsh.store.durable import FileFact, sync, writing
from gpulsh.store.lock import open_locked, record_commit, refuse_lost_commit
from gpulsh.store.manifest import Manifest, file_facts, read_checked, write_checked

NAME, LOCK, FORMAT = PASSAGES, "lock", 2
RUN = "run"  # the step that gives a run its name
OWN_FILE = re.compile(r"(samples|places)-[0-9a-f]{32}\.arrow(\.[0-9a-f]+\.part)?|passages\.json\.[0-9a-f]+\.part")


@dataclass(frozen=True)
class JoinedRun:
    """A run that joined, as `passages.json` has it."""

    name: str
    sources: Sequence[Source]
    stamps: Sequence[Stamp]
    partitions: Sequence[Mapping[str, Any]]  # the facts of `sample` of each, with files numbered from 0
    files: Mapping[str, FileFact]


class PassagesIndex:
    """A context: the locked index that a run reads and joins; created if there is none.

    Raises InputError if it is damaged, ParameterError if its `parameters` differ, and OutputError if another run uses
    it or the folder holds something else.
    """

    def __init__(self, path: Path, parameters: Mapping[str, Any]) -> None:
        self._path, self._parameters = path, json.loads(json.dumps(parameters))
        self._runs: list[JoinedRun] = []
        self._name = ""  # of the run
        self._has_joined = False
        self._made = False
        self._lock = -1

    def __enter__(self) -> Self:
        with writing(self._path):
            self._made = not os.path.lexists(self._path)
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync(self._path.parent)
            refuse_lost_commit(self._path / LOCK, NAME)
            strange = [
                name for name in os.listdir(self._path) if name not in (NAME, LOCK) and not OWN_FILE.fullmatch(name)
            ]
            if strange and not os.path.lexists(self._path / NAME):
                raise OutputError(
                    f"{self._path}: is not an index of passages, it holds {min(strange)}; give another folder"
                )
            try:
                self._lock = open_locked(self._path / LOCK, 0o600)
            except BlockingIOError:
                raise OutputError(f"{self._path}: another run uses this index; wait until it has ended") from None
        try:
            self._read()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        if not os.path.lexists(self._path / NAME):  # no run has joined
            with suppress(OSError):
                self._sweep()
                (self._path / LOCK).unlink()
                if self._made:
                    self._path.rmdir()
        os.close(self._lock)

    def add_earlier(self, job: PassagesJob, manifest: Manifest) -> PassagesJob:
        """The job with all documents that came before; `manifest` is the manifest of its work folder."""
        facts = manifest.finished(RUN)
        if facts is None:
            facts = {"name": secrets.token_hex(16), "before": [run.name for run in self._runs]}
            manifest.add(RUN, {}, facts)
        self._name, before = str(facts["name"]), len(facts["before"])
        runs, later = self._runs[:before], self._runs[before:]
        self._has_joined = bool(later)
        if [run.name for run in runs] != facts["before"] or (later and later[0].name != self._name):
            raise OutputError(f"{self._path}: is not as it was when this run began; start again with --overwrite")
        self._refuse_known(job, runs)
        held = _index_contents(self._path, runs)
        files, known = (*held.files, *job.files), held.stamps + tuple(job.stamps.known)
        return replace(job, files=files, stamps=Stamps(files, known), held=held)

    def copy_files(self, job: PassagesJob, manifest: Manifest, work: Path) -> None:
        """Copy what later runs need of this one from its work folder; nothing names it yet."""
        if self._has_joined:
            return
        steps = sorted((name, step.facts) for name, step in manifest.steps() if name.startswith(f"{SAMPLES.stage}-"))
        paths = [self._path / f"{what}-{self._name}.arrow" for what in ("samples", "places")]
        start, partitions = 0, []
        with (
            writing(self._path),
            columns_file(paths[0], SAMPLES.schema()) as samples,
            columns_file(paths[1], PLACES.schema()) as places,
        ):
            for number, (_, facts) in enumerate(steps, job.earlier_partitions):
                count = 0
                for table in (SAMPLES, REST):
                    for run in table.open(work, number).runs():
                        samples.append(SampleRows(run.value, run.place + start))
                        count += len(run.value)
                partitions.append(_renumbered({**facts, "samples": count}, -job.earlier_files))
                places.append(PLACES.joined(PLACES.open(work, number).runs()))
                start += int(facts["places"])
            files = samples.finish_by_name() | places.finish_by_name()
        own = slice(job.earlier_files, None)
        sources = [Source.of(file, job.columns.text) for file in job.files[own]]
        self._runs.append(JoinedRun(self._name, sources, list(job.stamps.known)[own], partitions, files))

    def commit(self, manifest: Manifest) -> None:
        """Let the prepared run join."""
        if self._has_joined:
            return
        manifest.add(JOIN, {}, {})  # from here on the work folder stays after an error
        runs = [asdict(run) for run in self._runs]
        made_by = {"gpulsh": __version__, "format": FORMAT, "scheme": SCHEME}
        content = json.dumps({**made_by, "parameters": self._parameters, "runs": runs}).encode() + b"\n"
        with writing(self._path):
            write_checked(self._path / NAME, content)
            record_commit(self._lock, NAME)
            self._sweep()

    def _read(self) -> None:
        try:
            found = json.loads(read_checked(self._path / NAME))
        except FileNotFoundError:
            return
        for name, own in {"format": FORMAT, "scheme": SCHEME}.items():
            if found[name] != own:
                raise InputError(
                    f"{self._path}: is of {name} {found[name]}, by gpulsh {found['gpulsh']}, and this version reads"
                    f" {own}; use that version, or start a new index"
                )
        for name in dict.fromkeys((*found["parameters"], *self._parameters)):  # texts must be read in the same way
            there, here = found["parameters"].get(name), self._parameters.get(name)
            if there != here:
                raise ParameterError(
                    f"{self._path}: has {name} {there!r}, and this run {here!r}; give the same, or another index"
                )
        for run in found["runs"]:
            sources, files = [Source(*source) for source in run["sources"]], file_facts(run["files"])
            self._runs.append(JoinedRun(run["name"], sources, run["stamps"], run["partitions"], files))
        for run in self._runs:
            for name, fact in run.files.items():
                if wrong := damage(self._path / name, fact, contents=True):
                    raise InputError(f"{self._path / name}: {wrong}; restore it from a copy, or start a new index")

    def _refuse_known(self, job: PassagesJob, runs: Sequence[JoinedRun]) -> None:
        """InputError if the index holds a file at that place, ParameterError if it could not find it again."""
        known = {source.path for run in runs for source in run.sources}
        for file in job.files:
            if file.copied:
                raise ParameterError(f"{file.name}: is a stream, which an index cannot read again; give files")
            if Source.of(file, job.columns.text).path in known:
                raise InputError(
                    f"{self._path}: holds {file.name} already; leave it out, or give new documents in another file"
                )

    def _sweep(self) -> None:
        """Remove the files of runs that did not join."""
        named = {name for run in self._runs for name in run.files}
        for name in os.listdir(self._path):
            if OWN_FILE.fullmatch(name) and name not in named:
                (self._path / name).unlink()


def _index_contents(index: Path, runs: Sequence[JoinedRun]) -> IndexContents:
    """All of these runs, end to end."""
    files: list[File] = []
    partitions: list[Partition] = []
    facts: list[Mapping[str, Any]] = []
    held: list[HeldRun] = []
    for run in runs:
        places, samples = (index / name for name in sorted(run.files))
        held.append(HeldRun(len(partitions), samples, places))
        for found in run.partitions:
            facts.append(_renumbered(found, len(files)))
            pieces = [Piece(number, part and Part(*part)) for number, part in facts[-1]["pieces"]]
            partitions.append(Partition(len(partitions), tuple(pieces)))
        files += [replace(file_of(source), name=source.name) for source in run.sources]
    stamps = tuple(stamp[:SHARED] for run in runs for stamp in run.stamps)
    return IndexContents(index, tuple(files), stamps, tuple(partitions), tuple(facts), tuple(held))


def _renumbered(facts: Mapping[str, Any], by: int) -> Mapping[str, Any]:
    """Facts of a partition, with other numbers of its files."""
    return {
        **{name: facts[name] for name in ("documents", "places", "samples")},
        "rejected": False,
        "first_file": facts["first_file"] + by,
        "rows": facts["rows"],
        "pieces": [[number + by, part] for number, part in facts["pieces"]],
    }
