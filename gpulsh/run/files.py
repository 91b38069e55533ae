"""`gpulsh.deduplicate_files`: a job over files, from its parameters to its results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa

from gpulsh.backends.select import BackendName
from gpulsh.budget import cut, parse_memory
from gpulsh.errors import GpulshError, InputError, InputTypeError, ParameterError
from gpulsh.io.columns import Columns, text_named
from gpulsh.io.file import File
from gpulsh.io.files.form import Form
from gpulsh.io.files.inputs import find_files, natural_id, refuse_packing, refuse_unused
from gpulsh.io.files.pipes import Streams, is_stream
from gpulsh.io.files.readers import Reader
from gpulsh.io.files.results import REPORT
from gpulsh.io.files.stamps import Stamps
from gpulsh.io.outputs.conversion import FormatName, refuse_stream_packing, renamed
from gpulsh.io.packing import Packing
from gpulsh.method import Asked, MeasureName, Resolve, Verify
from gpulsh.params import (
    BitSketch,
    Folding,
    NormalForm,
    Shingling,
    Sketch,
    check_choice,
    check_type,
    is_path,
    known_keywords,
    normalizing,
    shown,
    shown_type,
)
from gpulsh.report.page import missing, write_page
from gpulsh.run.driver import Outcome, deduplicate_partitions
from gpulsh.run.engines import Engine, EngineName, check_engine, open_engine
from gpulsh.run.engines.steps import Steps
from gpulsh.run.job import Job, OnError, Terms, Workplace, Write
from gpulsh.run.output.finished import Finished
from gpulsh.run.output.folder import (
    PAGE,
    OutputFolder,
    finished,
    read_report,
    write_report,
)
from gpulsh.run.output.paths import Folders
from gpulsh.run.output.remote import RemoteFolder
from gpulsh.run.policy import Policy
from gpulsh.run.progress import Show, open_progress
from gpulsh.run.report import RunReport, Start
from gpulsh.secret import chosen_secret, evidence_keys
from gpulsh.sketch.named import sketches_named
from gpulsh.stats.stages import Funnel, Progress
from gpulsh.store.durable import refused

if TYPE_CHECKING:  # it loads all of the index, which other runs need not
    from gpulsh.run.incremental import EarlierRuns

Input = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class FilesResult:
    """What `deduplicate_files` did: where the results lie, and the report that stands there as report.json."""

    output: Path | str  # a URL where one was given
    report: dict[str, Any]

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={self.funnel[name]}" for name in ("documents", "kept", "dropped"))
        return f"FilesResult({str(self.output)!r}, {counts})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{Funnel(**self.funnel)._repr_html_()}"

    @property
    def funnel(self) -> dict[str, Any]:
        """Counts and seconds of every stage."""
        return dict(self.report["funnel"])

    @property
    def data(self) -> Path | str | None:
        """The folder of the kept rows; None where they were not asked for."""
        return self._below("data") if self.report["parameters"]["write"] == "data" else None

    @property
    def duplicates(self) -> Path | str:
        """The Parquet file with a row a dropped document."""
        return self._below("duplicates.parquet")

    def shares(self, column: str) -> pa.Table:
        """Of each value of a column how many documents have it, and how many of these were dropped.

        A pyarrow.Table with `value` string, `documents` and `dropped` int64; values of most documents come first. They
        are read again: InputError where INPUT has no such column or was changed since the run, ParameterError where it
        has more than 2^20 values.
        """
        return Finished.of(str(self.output)).shares(column)

    def _below(self, name: str) -> Path | str:
        return f"{self.output}/{name}" if isinstance(self.output, str) else self.output / name


@known_keywords
def deduplicate_files(
    inputs: Input | Sequence[Input],
    output: Input,
    *,
    text_column: str | Sequence[str] = "text",
    lines: bool = False,
    as_text: str | Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    id_column: str | None = None,
    keep: str | None = None,
    protect: Input | Sequence[Input] = (),
    within: bool = False,
    across: bool = False,
    index: Input | None = None,
    write: Write = "data",
    format: FormatName | None = None,
    compression: str | None = None,
    threshold: float | None = None,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    normalize: NormalForm | None = None,
    sketch: Sketch | BitSketch | str | None = None,
    num_perm: int | None = None,
    bands: int | None = None,
    rows: int | None = None,
    seed: int | None = None,
    verify: Verify = "exact",
    resolve: Resolve = "kept",
    measure: MeasureName | None = None,
    also: BitSketch | str | None = None,
    distance: int | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    devices: Sequence[int] | None = None,
    reader: Reader = "arrow",
    on_error: OnError = "fail",
    memory: int | str | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    work: Input | None = None,
    overwrite: bool = False,
    resume: bool = False,
    dry_run: bool = False,
    progress: Show = False,
    secret: bytes | None = None,
) -> FilesResult:
    """Finds the near-duplicates among the documents of files and writes what is kept, and the evidence, to a folder.

    The folder gets `data/` (the kept rows with every column, one file an input file; where several inputs are folders
    or globs, or files have equal names, in a folder for each input, named by the shortest end of its path that no other
    shares), `duplicates.parquet` (a row a dropped document; `gpulsh.stats.counts` tells its columns),
    `report.json` and, with the extra `report`, `report.html`. Parameters that are not told of here are those of
    `deduplicate`; None takes its default.

    inputs          files, folders, globs or URLs of Parquet, Arrow IPC, WARC and WET (plain, .gz), JSON lines, one
                    JSON array of objects (.json), CSV and TSV with a header, or plain text (plain, .gz, .bz2, .xz,
                    .zst), a document a file. Named pipes, and "-", which is standard input, are read once, into a
                    temporary file (in TMPDIR); where the name tells no format the beginning does: JSON, a header with
                    commas or tabs, with `lines` any text
    output          a folder, made here, or empty; see `overwrite` and `resume`. Behind a URL that fsspec can write to,
                    the results are put there when all are made, report.json last
    text_column     the column or JSON field of the text, "meta.body" one of its fields, ["title", "body"] or
                    "title,body" several, joined by a line end, nulls left out; "column:a.b" is the column of that name
    lines           each line of a text file is a document
    as_text         a pattern of file names, as "*.py", or a list of them: each such file is one text, whatever its name
                    says; one with a slash is of paths. In folders only such files count then, those that begin with `_`
                    too
    delimiter       what stands between the values of CSV and TSV files, as ";" or "tab"; None takes what names say
    encoding        of CSV, TSV and text files, as "latin-1"; None takes UTF-8. Kept rows are copied as they are
    id_column       what documents are called by in the evidence, and in an index, "meta.id" the field of objects where
                    there is no column of that name; None takes WARC's record id, or none
    keep            which of two duplicates is kept: the "first" (what None takes), the "longest" text in bytes (what
                    None takes where `measure` is "containment", unless there is an index), the one with the highest
                    value of the column of this name (numbers, dates, or text that is ISO 8601 dates: the latest), or by
                    "source:A,B" the one of the INPUT that is listed first
    protect         files, as `inputs`, whose documents are never dropped and not written; others are dropped for them
    within, across  only documents of one INPUT are duplicates; only those of two
    index           folder of an index of earlier runs, made where it is absent: its documents come before all others,
                    and those of the run are added to it, by `id_column` or FILE:ROW. Parameters left open are the
                    index's own. `keep` orders the documents of a run; another one than "first" copies their texts to
                    the work folder. They are verified exactly, by this process, whatever the engine
    write           "data", or "duplicates" for the evidence alone
    format          "parquet" or "jsonl": of kept rows, whose files are then called so; None takes each file's own. What
                    JSON lines hold has the types that hold all values of a file's field, WARC the columns id, url, date
                    and text, a text file text; a file of another format of which nothing is kept is not written
    compression     codec and level of kept rows, as "zstd:9" or "snappy": any codec for Parquet; a level of their own
                    codec for .gz and .zst files; none, gzip or zstd for JSON lines that `format` makes. None takes the
                    input's codec at the library's default level, and zstd for Parquet made of other formats
    reader          "cudf" decodes the text of Parquet files on the device of the CUDA backend
    on_error        a bad record stops the run, or with "skip" is listed in `rejected.parquet` and is no document (see
                    `gpulsh.io.files.rejected`)
    memory          what the run may take, as "4GiB" or bytes, at least 512 MiB and four times the largest document; the
                    work is cut to fit. None takes 8 GiB, or half of the machine's where that is less
    engine          "ray" does the work on the Ray cluster at `address`, or on one of its own on this machine; all its
                    nodes see inputs and output under the same paths; `memory` and `threads` are of one worker (4 GiB
                    and 4, or less where nodes have less), which has a GPU where the backend is CUDA
    work            where `output` is a URL, the local folder, made here, or empty, that has room for the results until
                    then, and that `resume` needs; None takes a new one in TMPDIR
    overwrite       replaces an earlier run's results in `output`
    resume          goes on with an unfinished run of the same job, or leaves it as it is where it was finished
    dry_run         checks all of this, and what the heads of the files and `output` show, and writes nothing. The
                    report has `parameters`, `files` and the `outputs` that there would be, and no counts
    progress        True shows bars, or lines; "json" writes events to standard error as JSON lines: the "begin" and the
                    "end" of each stage, with seconds, amounts and rates
    secret          32 bytes that evidence is hashed under, for tests: no byte of the results depends on it. None draws
                    them for each run, or takes the index's; they lie in the work folder while the run goes

    Returns a FilesResult.
    Raises ParameterError, InputError, OutputError or BackendError; then nothing of what it made is left, or, where
    much was finished, what `resume` goes on from. Interrupted (KeyboardInterrupt, SystemExit), it leaves whatever was
    finished.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = Path(folder, "a.jsonl")
    ...     _ = lines.write_text('{"text": "Some words"}\\n{"text": "some words!"}\\n{"text": "Others"}\\n')
    ...     result = deduplicate_files(lines, Path(folder, "out"), backend="reference")
    ...     print((result.data / "a.jsonl").read_text())
    {"text": "Some words"}
    {"text": "Others"}
    <BLANKLINE>
    """
    start = Start()
    given, guarded = _paths("inputs", inputs), _paths("protect", protect) if _given(protect) else []
    folders = Folders.chosen(output, work, index)
    if folders.is_remote and work is None and engine == "ray":
        raise ParameterError("output is a URL, and engine 'ray'; give --work, a folder that all nodes see")
    check_choice("write", write, get_args(Write))
    check_choice("format", format, (None, *get_args(FormatName)))
    check_choice("reader", reader, get_args(Reader))
    check_choice("on_error", on_error, get_args(OnError))
    check_choice("measure", measure, (None, *get_args(MeasureName)))
    form = Form(lines=lines, as_text=as_text, delimiter=delimiter, encoding=encoding)  # type: ignore[arg-type]
    flags = {"within": within, "across": across, "overwrite": overwrite, "resume": resume}
    for name, flag in {**flags, "dry_run": dry_run}.items():
        check_type(name, flag, bool)
    if overwrite and resume:
        raise ParameterError(
            "overwrite and resume are both given; give --resume to go on with what is finished, or --overwrite to begin"
            " anew"
        )
    text_column = text_named(text_column)
    if not isinstance(id_column, (str, NoneType)):
        raise ParameterError(f"id_column is {shown(id_column)}; give the name of a column")
    packing = None if compression is None else Packing.parse(compression)
    for name, given_form in {"format": format, "compression": compression}.items():
        if write == "duplicates" and given_form is not None:
            raise ParameterError(
                f"{name} is {given_form!r} and write is 'duplicates', which writes no rows; leave one of them out"
            )
    own_secret = chosen_secret(secret)
    parse_memory(memory)
    threads = check_engine(engine, address, backend, threads, devices)
    if dry_run:
        _refuse_dry(folders, engine, [*given, *guarded])
    folding = normalizing(folding, normalize)
    sketch, also, distance = sketches_named(sketch, also, num_perm, seed, distance)
    asked = Asked(threshold, shingling, folding, sketch, num_perm, bands, rows, seed, distance, measure)
    if keep is None:
        keep = "longest" if measure == "containment" and index is None else "first"
    if index is None:
        method = asked.method(verify=verify, resolve=resolve, also=also)
    else:
        from gpulsh.run.incremental import EarlierRuns, refuse_with_index

        others = {"protect": guarded, "within": within, "across": across, "--and": also}
        refuse_with_index({"verify": verify, "resolve": resolve}, on_error, id_column, others)
    policy = Policy(keep, tuple(given), tuple(guarded), within, across)
    streams = Streams(form)  # to the end of the run
    files = find_files(given, guarded, streams, form)
    refuse_unused(files, form)
    policy.warn_of(files)
    if on_error == "skip":
        files = [replace(file, intact_only=True) for file in files]
    files = _as_written(files, policy, format, packing)
    folders.refuse_overlap([*guarded, *given], files)
    earlier = None
    if folders.index is not None:
        own_threads = threads if engine == "local" else None  # of this process, not of a worker
        where = {"backend": backend, "threads": own_threads, "devices": devices, "memory": parse_memory(memory)}
        earlier = EarlierRuns(folders.index, id_column, asked, where, own_secret)
        method = earlier.method()
    with ExitStack() as stack:
        remote = None
        if folders.is_remote:
            remote = stack.enter_context(RemoteFolder(folders.output, folders.work, overwrite=overwrite, resume=resume))
        out = remote.local if remote else Path(folders.output)
        stack.enter_context(_clear_errors(out))
        there = files if engine == "local" else [_anywhere(file) for file in files]
        terms = Terms(
            method=method,
            policy=policy,
            files=tuple(there),
            columns=Columns(text=text_column, key=policy.key, id=id_column or natural_id(files)),
            on_error=on_error,
            write=write,
            stamps=Stamps.of(there),
            earlier=earlier.to_job() if earlier else None,
            format=format,
            packing=packing,
            form=form,
        )
        report = None
        if resume and not dry_run:
            if remote and (report := remote.finished(terms.to_json())):
                return FilesResult(remote.url, dict(report))
            report = finished(out, terms.to_json())
        if report is None:
            doing = stack.enter_context(open_engine(engine, address, backend, threads, devices, memory))
            job = Job.of(terms, reader, cut(doing.memory, doing.ops.sizes()))
            parameters = {"id_column": id_column, "threads": threads, "reader": reader, "memory": doing.memory}
            told = RunReport(job, given, files, doing, parameters, start)
            if dry_run:
                job.texts(doing.ops).check()
                OutputFolder(out, overwrite=overwrite, resume=resume).check(job.to_json(), job.steps())
                return FilesResult(out, dict(told.planned()))
            run = _Run(job, doing, earlier, open_progress(progress), told)
            with OutputFolder(out, overwrite=overwrite, resume=resume) as folder:
                report = run.results(folder, own_secret)
        if remote:
            remote.put(report)
    return FilesResult(remote.url if remote else out, dict(report))


def _refuse_dry(folders: Folders, engine: EngineName, inputs: Sequence[str]) -> None:
    """Of what cannot be looked at without doing it."""
    if folders.is_remote:
        told = f"output is {folders.output!r}; give one of those"
        raise ParameterError(f"--dry-run looks at local folders alone, and {told}")
    if engine != "local":
        raise ParameterError(f"--dry-run looks at this machine alone, and engine is {engine!r}; leave out one of them")
    if folders.index is not None:
        raise ParameterError("--dry-run cannot tell what a run with an index takes; leave out one of them")
    for given in inputs:
        if is_stream(given):
            raise InputError(f"{given}: can be read only once, and --dry-run would be that; give a file")


def _as_written(files: list[File], policy: Policy, format: FormatName | None, packing: Packing | None) -> list[File]:
    """The files, those that are written by the names that they get; an error where they cannot be packed so."""
    protected = [file for file in files if policy.protects(file)]
    written = [file for file in files if not policy.protects(file)]
    if format is None:
        if packing is not None:
            refuse_packing(written, packing)
        return files
    if packing is not None and format == "jsonl":
        refuse_stream_packing(packing)
    return [*protected, *renamed(written, format, packing)]


@dataclass(frozen=True)
class _Run:
    """A job on an open engine, from the output folder to the results in it."""

    job: Job
    engine: Engine
    earlier: EarlierRuns | None
    progress: Progress
    report: RunReport

    def results(self, folder: OutputFolder, secret: bytes) -> Mapping[str, Any]:
        """Put them in place; the report."""
        steps = Steps(folder.manifest(self.job.steps(), secret))
        if folder.is_committed():
            folder.commit()
            return read_report(folder.path / REPORT)
        outcome = self._decided(self.job, folder.work, steps)
        no_page = missing()
        report = self.report.finished(folder.work, outcome, no_page)
        write_report(folder.work / REPORT, report)
        if no_page is None:
            write_page(folder.work / PAGE, report)
        self.job.stamps.check_all()
        folder.commit()
        return report

    def _decided(self, job: Job, work: Path, steps: Steps) -> Outcome:
        """Everything but the report."""
        engine, progress = self.engine, self.progress
        if engine.remote:
            work = work.absolute()
        with engine.running(job, work, steps, progress) as runner:
            place = Workplace(job, work, engine.ops, progress, evidence_keys(steps.secret))
            decider = self.earlier.decider(place, steps, runner, remote=engine.remote) if self.earlier else None
            return deduplicate_partitions(job, work, engine.ops, runner, progress, decider)


@contextmanager
def _clear_errors(out: Path) -> Iterator[None]:
    """Turn an error of the system into an OutputError."""
    try:
        yield
    except GpulshError:
        raise
    except OSError as error:
        raise refused(error.filename or out, error) from error


def _anywhere(file: File) -> File:
    """The file by a path that holds in other folders and on other machines."""
    return file if file.filesystem is not None else replace(file, path=os.path.join(os.getcwd(), file.path))


def _paths(name: str, inputs: Input | Sequence[Input]) -> list[str]:
    given = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    if not isinstance(given, (list, tuple)):
        raise InputTypeError(f"{name} is {shown_type(given)}; give a path or a list of paths")
    if not given:
        raise ParameterError(f"{name} is empty; give at least one file, folder, glob or URL")
    for place, path in enumerate(given):
        if not is_path(path):
            raise InputTypeError(f"{name}[{place}] is {shown_type(path)}; give a path")
    return [os.fspath(path) for path in given]


def _given(paths: object) -> bool:
    return not isinstance(paths, (str, list, tuple, NoneType)) or bool(paths)
