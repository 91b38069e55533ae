"""The output folder: a run works in `OUT/_work` and renames its results into place at the end, or not at all."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from gpulsh.errors import Advice, OutputError
from gpulsh.io.files.no_documents import COUNTED, DATA, EVIDENCE, MARK, PASSAGES, REPORT, SHORT
from gpulsh.io.limits import exact_size
from gpulsh.run.job import ADMIT, JOIN
from gpulsh.run.output.paths import not_empty_error
from gpulsh.run.output.work_folder import (
    WORK,
    WorkLock,
    clear,
    is_work_folder,
    refuse_foreign,
    refuse_links,
    refuse_running,
    remove_work,
)
from gpulsh.stats.counts import COUNTS
from gpulsh.store.durable import PART_SUFFIX, open_file, sync, write_error
from gpulsh.store.manifest import NAME, Manifest

COMMIT = "commit"  # the step of a run that has all results and moves them into place
PAGE = "report.html"
MAX_SHOWN = 3  # differences of two jobs
WORTH_BYTES = 256 << 20  # of signed text: so much work outlives an error; an interrupted run keeps all of it
RESULTS = (DATA, EVIDENCE, COUNTED, "rejected.parquet", "contamination.parquet", PASSAGES, SHORT, PAGE, REPORT)
FIRST_STAGES = ("sign-", "sample-")

_log = logging.getLogger("gpulsh")


class OutputFolder:
    """A context, in which OUT and its work folder exist. An exception removes everything that gpulsh made, unless much
    was finished, or the run was interrupted and anything was. A kill may leave OUT at any instant, also between the
    renames of `commit`: `resume` continues from each state.

    Raises OutputError if OUT is in use, or cannot be made, before anything in it is touched.
    """

    def __init__(self, path: Path, *, overwrite: bool, resume: bool) -> None:
        self.path = path
        self.work = path / WORK
        self._overwrite, self._resume = overwrite, resume
        self._manifest: Manifest | None = None
        self._made: list[Path] = []  # folders gpulsh made, outermost first
        self._lock: WorkLock | None = None
        self._begun = False  # whether the work folder's content is this job's
        self._old: list[str] = []  # results of an earlier run, to be replaced
        self._committing = False  # whether an earlier run was killed when results may have been in OUT already

    def __enter__(self) -> Self:
        try:
            self.refuse_in_use()
            self._make()
        except BaseException as error:
            self._undo()
            if isinstance(error, OSError) and not isinstance(error, OutputError):
                raise write_error(self.path, error) from error
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if kind is not None:
            self._undo(interrupted=not issubclass(kind, Exception))

    def check(self, job: Mapping[str, Any], steps: Mapping[str, Any]) -> None:
        """Raise the errors of a run of this job, and make nothing."""
        report = _report_of_finished(self.path) if self._resume else None
        if report is not None:
            refuse_difference(self.path, report["job"], job)
            return
        self.refuse_in_use()
        found = Manifest.open(self.work) if self._resume and is_work_folder(self.work) else None
        if found is not None:
            refuse_difference(self.path, found.job, steps)
        there = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise OutputError(f"{self.path}: cannot be written: {there} is closed to this user; give another folder")

    def manifest(self, job: Mapping[str, Any], secret: bytes) -> Manifest:
        """The manifest of the resumed run, or a new one with this secret; OutputError that names what differs."""
        found = Manifest.open(self.work) if self._resume else None
        if found is not None:
            refuse_difference(self.path, found.job, job)
        self._begun = True
        self._manifest = found or Manifest.begin(self.work, job, secret)
        self._committing = self._manifest.find(COMMIT) is not None
        return self._manifest

    def is_committed(self) -> bool:
        """Whether a resumed run has only `commit` left, after it moved results; OutputError if they are nowhere."""
        if not self._committing:
            return False
        moves_last = self.work / REPORT
        report = read_report(moves_last if os.path.lexists(moves_last) else self.path / REPORT)
        listed = listed_results(report)
        if listed and all(os.path.lexists(self.work / name) for name in listed):
            return False
        lost = [name for name in listed if not any(os.path.lexists(at / name) for at in (self.work, self.path))]
        if lost or not is_finished(report):
            raise OutputError(f"{self.work}: the finished results are gone; start again with --overwrite")
        return True

    def commit(self) -> None:
        """Move the results from the work folder into OUT, instead of an earlier run's, and remove the work folder."""
        moved: list[tuple[Path, Path]] = []
        before, self._committing = self._committing, True  # if the way back fails, too, nothing is removed
        try:
            if os.path.lexists(self.work / REPORT):  # it moves last; without it, OUT holds the results
                self._move_results(moved)
        except BaseException:
            for source, target in reversed(moved):
                if not os.path.lexists(source):  # the end came before it was moved
                    os.rename(target, source)
            self._committing = before
            raise
        self._made = []  # from here on it is the user's
        remove_work(self.work)
        if self._lock is not None:
            self._lock.release()

    def _move_results(self, moved: list[tuple[Path, Path]]) -> None:
        assert self._manifest is not None

        def move(source: Path, target: Path) -> None:
            if os.path.lexists(target):
                raise OutputError(f"{target}: appeared during the run, and gpulsh did not write it; move it away first")
            moved.append((source, target))
            os.rename(source, target)

        aside = self.work / "replaced"
        aside.mkdir(exist_ok=True)
        found = self._manifest.find(COMMIT)
        if found is None:
            for path in (self.work / REPORT, self.work / PAGE):
                if path.exists():
                    sync(path)
            for folder, _, _ in os.walk(self.work / DATA):
                sync(Path(folder))
            sync(self.work)
            self._manifest.add(COMMIT, {}, {"replaced": self._old})
        replaced = found.facts["replaced"] if found else self._old
        for name in RESULTS:
            if name in replaced and not os.path.lexists(aside / name):
                move(self.path / name, aside / name)
        for name in RESULTS:
            if name == REPORT:
                sync(self.path)
            if os.path.lexists(self.work / name):
                move(self.work / name, self.path / name)
        sync(self.path)

    def refuse_in_use(self) -> None:
        """OutputError if OUT holds anything that this run may neither continue nor replace."""
        out = self.path
        if not os.path.lexists(out):
            return
        if not out.is_dir():
            what = "is a file" if out.exists() else f"is a broken link to {os.readlink(out)}"
            raise OutputError(f"{out}: {what}; give a folder")
        there = sorted(entry.name for entry in out.iterdir())
        if not there:
            return
        ours = is_work_folder(self.work)
        if ours:
            refuse_running(self.work)
        unfinished = self._unfinished() if ours else None
        if unfinished and not self._resume and may_have_joined(unfinished):
            raise OutputError(
                f"{out}: holds an unfinished run, and the index may hold its documents; give --resume to continue it,"
                f" or remove {self.work} to lose its results"
            )
        if self._resume and ours and (there == [WORK] or (unfinished and unfinished.find(COMMIT))):
            return
        report = read_report(out / REPORT)
        if not self._overwrite and not (self._resume and unfinished):
            if unfinished is not None:
                raise OutputError(f"{out}: holds an unfinished run; give --resume to continue it, or --overwrite")
            results = "an earlier run's results" if MARK in report else None
            raise not_empty_error(out, results or ("an earlier run's work files" if ours else None))
        refuse_foreign(self.work)
        listed = listed_results(report) | (listed_results(read_report(self.work / REPORT)) if ours else set())
        if not listed and not ours:
            raise OutputError(f"{out}: holds files that gpulsh did not write; give another folder")
        # A report lists itself, so its content shows that it is gpulsh's.
        listed = listed | {REPORT} if MARK in report else listed - {REPORT}
        for name in RESULTS:
            if name in there:
                strange = [path for path in files_of(out / name, name) if path not in listed]
                if strange:
                    raise OutputError(f"{out}: holds {strange[0]}, which gpulsh did not write; move it away first")
                self._old.append(name)

    def _unfinished(self) -> Manifest | None:
        """The manifest in the work folder. --overwrite replaces a run whose manifest this version cannot read."""
        try:
            return Manifest.open(self.work)
        except OutputError:
            if self._overwrite:
                return None
            raise

    def _make(self) -> None:
        missing = [path for path in (self.path, *self.path.parents) if not os.path.lexists(path)]
        try:
            for path in reversed(missing):
                path.mkdir()
                self._made.append(path)
            if not ((self._overwrite or self._resume) and is_work_folder(self.work)):
                self.work.mkdir(mode=0o700)  # hashes of known text may reveal the secret keys
            elif self.work.stat().st_mode & 0o077:  # earlier versions left it open
                with suppress(PermissionError):  # its file system has no permissions, and the owner was checked
                    self.work.chmod(0o700)
        except FileExistsError:
            raise OutputError(
                f"{self.path}: appeared while this run began, so another run of gpulsh may use it; give another folder"
            ) from None
        self._lock = WorkLock(self.work)
        if self._resume and os.path.lexists(self.work / NAME):
            refuse_links(self.work)
        if self._resume and Manifest.open(self.work) is not None:
            self._lock.mark(self.work)
            for part in self.work.glob(f"*{PART_SUFFIX}"):  # of an attempt that was killed
                part.unlink(missing_ok=True)
            return
        self._begun = True
        clear(self.work)
        self._lock.mark(self.work)

    def _undo(self, *, interrupted: bool = False) -> None:
        if self._manifest is not None and (
            self._committing
            or worth_resuming(self._manifest)
            or (interrupted and self._begun and any(step.files for _, step in self._manifest.steps()))
        ):
            _log.warning(Advice(f"{self.path}: keeps the finished part of this run; --resume continues it"))
        elif self._lock is not None and self._begun:  # without a lock the work folder is another's
            remove_work(self.work)
        if self._lock is not None:
            self._lock.release()
        for path in reversed(self._made):
            try:
                path.rmdir()
            except OSError:  # someone else put something there meanwhile
                break


def worth_resuming(manifest: Manifest) -> bool:
    """Whether finished steps took so long that they stay after an error, too."""
    signed = sum(step.facts.get("bytes", 0) for name, step in manifest.steps() if name.startswith(FIRST_STAGES))
    return bool(signed >= WORTH_BYTES) or may_have_joined(manifest)


def may_have_joined(manifest: Manifest) -> bool:
    """Whether an index may hold the documents of the run, which only its resumption then lists."""
    return any(manifest.find(step) for step in (ADMIT, JOIN))


def find_finished(out: Path, job: Mapping[str, Any]) -> dict[str, Any] | None:
    """The report in OUT if this job is finished there; None if nothing is; OutputError that names what differs."""
    report, work = _report_of_finished(out), out / WORK
    if report is None:
        return None
    refuse_difference(out, report["job"], job)
    with suppress(OSError):  # the rest of a work folder, if a run is killed while it removes the folder
        if is_work_folder(work):
            lock = WorkLock(work)
            try:
                remove_work(work)
            finally:
                lock.release()
    return report


def _report_of_finished(out: Path) -> dict[str, Any] | None:
    report, work = read_report(out / REPORT), out / WORK
    unfinished = is_work_folder(work) and Manifest.open(work) is not None
    return report if is_finished(report) and not unfinished else None


def refuse_difference(out: Path | str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """OutputError that names what differs between two jobs: their commands, or their parameters and files."""
    command = _command(before)
    if command != _command(now):
        raise OutputError(
            f"{out}: belongs to a run of `gpulsh {command}`; give another folder, or --overwrite instead of --resume"
        )
    found = list(_differences(before, now))
    if found:
        more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
        raise OutputError(
            f"{out}: belongs to another run: {'; '.join(found[:MAX_SHOWN])}{more};"
            " give the same, another folder, or --overwrite instead of --resume"
        )


KEPT_SIZES = ("memory", "digests", "group", "part")  # of a cut: may differ; all but the memory stay
FILE_DIGESTS = {  # digests in a job, in the order of `FileJob.to_json`
    "order": "its inputs are in another order",
    "places": "its files have other places in data/",
    "sources": "its files belong to other INPUTs",
}


def _command(job: Mapping[str, Any]) -> str:
    """The command of a job, by a parameter that each of its jobs has."""
    given = job.get("parameters", {})
    return "dedup" if "write" in given else "cut" if "passages_stamp" in given else "passages"


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if name in FILE_DIGESTS:
            yield FILE_DIGESTS[name]
            return  # in another order, the others differ, too
        if name == "weights" or not (isinstance(old, Mapping) and isinstance(new, Mapping)):
            was, now_is = (repr(job[name]) if name in job else "absent" for job in (before, now))
            yield f"{name} was {was} and is {now_is} now"
        elif name == "inputs":  # files, by their sizes and times
            for file in dict.fromkeys((*old, *new)):
                if old.get(file) != new.get(file):
                    how = "is a new input" if file not in old else "has changed since"
                    yield f"{file} {how if file in new else 'is no longer an input'}"
            return  # the places and sources of files follow from which there are
        elif name == "cut" and old["memory"] > new["memory"]:  # the other sizes follow from it
            was, now_is = (exact_size(job["memory"]) for job in (old, new))
            yield f"memory was {was} and is {now_is} now, which is less"
        elif name == "cut":
            yield from _differences(*({**job, **dict.fromkeys(KEPT_SIZES)} for job in (old, new)))
        else:
            yield from _differences(old, new)


def has_all_parts(report: Mapping[str, Any]) -> bool:
    """Whether a report has the parts that gpulsh reads; reports of other versions may lack some."""
    parts = ("job", "parameters", "funnel", "backend", "evidence")
    whole = MARK in report and all(isinstance(report.get(name), dict) for name in parts)
    whole = whole and all(isinstance(report.get(name), list) for name in ("files", "sources", "written", "outputs"))
    return whole and report["funnel"].keys() >= COUNTS.keys()


def is_finished(report: Mapping[str, Any]) -> bool:
    """Whether a report is of a finished run over files, of any kind."""
    of_passages = MARK in report and all(isinstance(report.get(name), dict) for name in ("job", "passages"))
    return of_passages or has_all_parts(report)


def listed_results(content: Mapping[str, Any], name: str = "outputs") -> set[str]:
    """The results that a report, or another mark of gpulsh's, lists; none where it is damaged."""
    found = content.get(name) if MARK in content else None
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()


def read_report(report: Path) -> dict[str, Any]:
    """The contents of a report; empty if there is none."""
    try:
        with open_file(report) as file:
            content = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write indented JSON in ASCII, so that a file's name that is not UTF-8 does no harm."""
    with open(path, "w", encoding="ascii") as file:
        json.dump(report, file, indent=2)  # as a text it takes a kilobyte for each input file
        file.write("\n")


def result_files(work: Path) -> list[str]:
    """The results but the report and its page, relative to OUT; a later `--overwrite` removes only what is listed."""
    found = [name for name in RESULTS if name not in (DATA, PAGE, REPORT) and (work / name).exists()]
    for folder, _, names in os.walk(work / DATA):
        below = folder[len(f"{work}/") :]
        found += [f"{below}/{name}" for name in names]
    return sorted(found)


def files_of(path: Path, name: str) -> list[str]:
    """The files of a result, as its report lists them, and the links, which no report does."""
    if path.is_symlink():
        return [f"{name}, a link"]
    if not path.is_dir():
        return [name]
    return [file for inner in sorted(path.iterdir()) for file in files_of(inner, f"{name}/{inner.name}")]
