"""A job over files, from INPUT to its report in OUT: the common part of all functions over files.

Also the types of their options, and which of them cannot be combined.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from gpulsh import __version__
from gpulsh.backends.compiling import COMPILING
from gpulsh.budget import TaskSizes, task_sizes
from gpulsh.checks import check_type, is_path, shown, shown_type
from gpulsh.errors import GpulshError, InputTypeError, ParameterError, refuse_given
from gpulsh.io.conversion import FormatName, refuse_stream_codec, with_format_names
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files, refuse_codec, refuse_unused
from gpulsh.io.files.no_documents import REPORT
from gpulsh.io.files.pipes import Streams
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.output_codec import OutputCodec
from gpulsh.memory_limit import memory_error
from gpulsh.params import SCHEME
from gpulsh.repeats.benchmark import Overlap
from gpulsh.report.page import missing_requirement
from gpulsh.report.reproduce import machine_facts, versions
from gpulsh.run.engines import Engine, EngineName, Machine
from gpulsh.run.job import FileJob, OnError
from gpulsh.run.output.folder import PAGE, OutputFolder, find_finished, read_report, write_report
from gpulsh.run.output.paths import Folders
from gpulsh.run.progress import Show, open_progress
from gpulsh.stats.stages import Progress
from gpulsh.store.durable import write_error
from gpulsh.store.manifest import Manifest

AnyJob = TypeVar("AnyJob", bound=FileJob)


@dataclass(frozen=True)
class OpenRun:
    """An open run: its engine, its manifest, and the work folder, where its results are made."""

    engine: Engine
    manifest: Manifest
    work: Path
    progress: Progress


# A context: entered, it has made all results, and given what the report says of them; left, they may move into place.
Results = Callable[[AnyJob, OpenRun], AbstractContextManager[Mapping[str, Any]]]
Page = Callable[[Path, Mapping[str, Any]], None]  # writes report.html


@dataclass(frozen=True)
class RunClock:
    """The time when a run began, and the clocks that measure it."""

    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.perf_counter)
    compiled: float = field(default_factory=COMPILING.seconds)

    def facts(self) -> Mapping[str, Any]:
        """The beginning of the report of a run that ends now."""
        return {
            "gpulsh": __version__,  # also marks the folder as gpulsh's own
            "scheme": SCHEME,
            "began": self.began.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - self.clock, 3),
            "compiling": round(COMPILING.seconds() - self.compiled, 3),  # a part of the seconds, but not of any stage's
        }


def run_job(
    job: AnyJob,
    output: Path,
    results: Results[AnyJob],
    page: Page | None,
    *,
    start: RunClock,
    inputs: Sequence[str],
    machine: Machine,
    overwrite: bool,
    resume: bool,
    progress: Show,
    secret: bytes,
) -> dict[str, Any]:
    """Run the job, or finish it, or find it finished; the report. An error of the system is an OutputError."""
    with ExitStack() as stack:
        stack.enter_context(system_errors_as_output_errors(output))
        if resume and (report := find_finished(output, job.to_json())) is not None:
            return report
        engine = stack.enter_context(machine.open_engine())
        job = with_cut(job, engine)
        folder = stack.enter_context(OutputFolder(output, overwrite=overwrite, resume=resume))
        manifest = folder.manifest(job.step_parameters(), secret)
        if manifest.job:  # a run goes on as it was cut, perhaps with more memory
            job = replace(job, cut=replace(TaskSizes(**manifest.job["cut"]), memory=job.cut.memory))
        if folder.is_committed():
            folder.commit()
            return read_report(output / REPORT)
        shown = open_progress(progress)
        job = job.with_parts(shown)
        work = folder.work.absolute() if engine.remote else folder.work
        with results(job, OpenRun(engine, manifest, work, shown)) as found:
            no_page = missing_requirement() if page else "a cut has no page"
            report = {
                **start.facts(),
                "parameters": job.parameters(),
                "backend": {"name": engine.ops.name, "device": getattr(engine.ops, "device", None)},
                "engine": engine.to_json(),
                "versions": versions(),
                "machine": machine_facts(),
                "inputs": list(inputs),
                **found,
                "page": {"written": no_page is None, "reason": no_page},
                "outputs": [*found["outputs"], REPORT, *([] if no_page else [PAGE])],
                "job": job.to_json(),
            }
            if page and no_page is None:
                page(work / PAGE, report)
            write_report(work / REPORT, report)
            job.stamps.check()
        folder.commit()
        return report


def with_cut(job: AnyJob, engine: Engine) -> AnyJob:
    """The job with its work cut for the engine."""
    return replace(job, cut=task_sizes(engine.memory, engine.ops.sizes(), engine.processes(job)))


@contextmanager
def system_errors_as_output_errors(out: Path) -> Iterator[None]:
    """Turn errors of the system into OutputError or MemoryLimitError."""
    try:
        yield
    except GpulshError:
        raise
    except MemoryError as error:
        raise memory_error(str(out)) from error
    except OSError as error:
        raise write_error(error.filename or out, error) from error


def input_files(
    inputs: Sequence[str],
    protect: Sequence[str],
    streams: Streams,
    read_options: ReadOptions,
    folders: Folders,
    *,
    on_error: OnError,
    engine: EngineName,
    new: bool,
) -> list[File]:
    """The files of a run, first the protected ones; an error if an output overlaps them, or a `new` one is in use."""
    known = (*inputs, folders.index)  # another message refuses them as OUT
    if new and not folders.is_remote and folders.output not in known:  # before the search, which may take long
        out = Path(folders.output)
        with system_errors_as_output_errors(out):
            OutputFolder(out, overwrite=False, resume=False).refuse_in_use()
    files = find_files(inputs, protect, streams, read_options)
    refuse_unused(files, read_options)
    folders.refuse_overlap([*protect, *inputs], files)
    if engine != "local":  # a path that holds in other folders and on other machines
        files = [
            file if file.filesystem is not None else replace(file, path=os.path.join(os.getcwd(), file.path))
            for file in files
        ]
    return [replace(file, intact_only=True) for file in files] if on_error == "skip" else files


def name_outputs(
    files: Sequence[File], protect: Sequence[str], format: FormatName | None, codec: OutputCodec | None = None
) -> list[File]:
    """The files, with the names of their outputs; an error if they cannot be written so."""
    written = [file for file in files if file.source not in protect]
    if format is None:
        if codec is not None:
            refuse_codec(written, codec)
        return list(files)
    if codec is not None and format == "jsonl":
        refuse_stream_codec(codec)
    return [*(file for file in files if file.source in protect), *with_format_names(written, format, codec)]


Input = str | os.PathLike[str]


def checked_paths(name: str, inputs: Input | Sequence[Input] | None, *, least: int = 1) -> list[str]:
    """INPUTs as strings; an error if they are not paths, or not as many as the `least`, 0 or 1."""
    given = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    if given is None and least == 0:
        return []
    if not isinstance(given, (list, tuple)):
        raise InputTypeError(f"{name} is {shown_type(given)}; give a path or a list of paths")
    if len(given) < least:
        raise ParameterError(f"{name} is empty; give at least one file, folder, glob or URL")
    for place, path in enumerate(given):
        if not is_path(path):
            raise InputTypeError(f"{name}[{place}] is {shown_type(path)}; give a path")
    return [os.fspath(path) for path in given]


def check_overwrite_resume(overwrite: object, resume: object) -> None:
    """ParameterError unless one of both at most is True."""
    check_type("overwrite", overwrite, bool)
    check_type("resume", resume, bool)
    if overwrite and resume:
        raise ParameterError(
            "--overwrite and --resume are both given; give --resume to continue the unfinished run, or --overwrite to"
            " start again"
        )


def check_columns(**columns: object) -> None:
    """ParameterError for a column that is no name."""
    for name, column in columns.items():
        if not isinstance(column, (str, NoneType)):
            raise ParameterError(f"{name} is {shown(column)}; give the name of a column")


def chosen_overlap(
    guarded: Sequence[str], passages: int | None, coverage: float, ignore_common: int | None
) -> Overlap | None:
    """The rule by which documents that hold protected ones are dropped; ParameterError if it lacks a part."""
    if passages is None:
        is_usual = isinstance(coverage, float) and coverage == 0.8
        given = {"ignore_common": ignore_common is not None, "coverage": not is_usual}
        refuse_given(given, "{} is given without --passages; give --passages, such as 13")
        return None
    if not guarded:
        raise ParameterError("--passages is given without --protect; give --protect, the files of the test set")
    return Overlap.from_arguments("passages", passages, coverage, ignore_common)
