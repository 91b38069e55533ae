"""`gpulsh.passages_files` and `gpulsh.cut_files`: passages that repeat inside documents of files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.checks import check_choice, check_integer, check_type, is_url, known_keywords
from gpulsh.errors import ChangedInputError, InputError, ParameterError, refuse_given
from gpulsh.io.columns import Columns, text_named
from gpulsh.io.conversion import FormatName
from gpulsh.io.file import File
from gpulsh.io.files.inputs import natural_id
from gpulsh.io.files.no_documents import DATA, REPORT
from gpulsh.io.files.pipes import Streams
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.stamps import Stamps
from gpulsh.params import Folding, NormalForm, Shingling, Unit, with_form
from gpulsh.repeats.copies import Part
from gpulsh.repeats.cut import checked_limits
from gpulsh.repeats.passages import checked_max_copies, window_size
from gpulsh.repeats.windows import Keep
from gpulsh.report.page import write_passages_page
from gpulsh.run.driver import Stages
from gpulsh.run.engines import EngineName, Machine
from gpulsh.run.file_run import (
    Input,
    OpenRun,
    RunClock,
    check_columns,
    check_overwrite_resume,
    checked_paths,
    chosen_overlap,
    input_files,
    name_outputs,
    run_job,
)
from gpulsh.run.job import OnError
from gpulsh.run.output.folder import is_finished, read_report, result_files
from gpulsh.run.output.paths import Folders, refuse_overlap, refuse_url
from gpulsh.run.passages.cut import cut_all, reading_of, refuse_uncuttable
from gpulsh.run.passages.driver import mark_partitions, mark_protected_items, pick_parts
from gpulsh.run.passages.evidence import FILE
from gpulsh.run.passages.index import PassagesIndex
from gpulsh.run.passages.job import CutJob, Cutting, PassagesJob
from gpulsh.run.progress import Show
from gpulsh.secret import chosen_secret
from gpulsh.stats.stages import PASSAGE_STAGES


@dataclass(frozen=True)
class CutResult:
    """The results of `cut_files`: their place, and the report, which is also in report.json."""

    output: Path
    report: dict[str, Any] = field(repr=False)

    @property
    def data(self) -> Path:
        """The folder of the texts."""
        return self.output / DATA


class PassagesResult(CutResult):
    """The results of `passages_files`, likewise; with `cut` they have a folder of texts."""

    @property
    def passages(self) -> Path:
        """The Parquet file with a row for each passage."""
        return self.output / FILE


@known_keywords
def passages_files(
    inputs: Input | Sequence[Input],
    output: Input,
    *,
    tokens: int = 50,
    keep: Keep = "first",
    bridge: int = 0,
    whole_lines: bool = False,
    unit: Unit | Part = "word",
    max_copies: int | None = None,
    within: str | None = None,
    bytes: int | None = None,
    index: Input | None = None,
    protect: Input | Sequence[Input] = (),
    passages: int | None = None,
    coverage: float = 0.8,
    ignore_common: int | None = None,
    symbols: bool = False,
    folding: Folding | None = None,
    normalize: NormalForm | None = None,
    cut: bool = False,
    min_left: int = 20,
    min_occurrences: int = 2,
    format: FormatName | None = None,
    text_column: str | Sequence[str] = "text",
    lines: bool = False,
    as_text: str | Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    id_column: str | None = None,
    on_error: OnError = "fail",
    backend: BackendName = "auto",
    threads: int | None = None,
    devices: Sequence[int] | None = None,
    memory: int | str | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Show = False,
    secret: bytes | None = None,
) -> PassagesResult:
    """Find text that repeats inside documents of files, and list it with evidence in a folder.

    The folder gets `passages.parquet`, with a row for each marked passage in input order, and `report.json`. `passages`
    finds the same passages in the same documents, in the order of the files and their rows:

        file, row, id                       the document; id is null without `id_column`
        start, stop                         bytes of its original text as UTF-8, at boundaries of characters
        first_file, first_row, first_start  where the first occurrence begins; null for an addition, which does not
                                            repeat
        tokens                              tokens of the passage
        occurrences                         how often its windows occur, including the first

    inputs   files, folders, globs or URLs, as `deduplicate_files` takes them
    output   a local folder that is new or empty; see `overwrite` and `resume`
    tokens, keep, bridge, whole_lines, unit, max_copies, bytes, symbols, folding, normalize
             as in `passages`
    within   a column of text, bytes or integers, such as a web host. With unit="line" or "paragraph", only copies in
             documents with an equal value count. Null and empty values are equal
    index    a folder with the documents of earlier runs, created if it does not exist. They come before `inputs`, as in
             one run over all, but only passages of `inputs` are listed. `first_file` may be of an earlier run. Then the
             documents of `inputs` join the index. It does not copy their texts: later runs read them again if they may
             repeat them, so keep the files. All runs need the same tokens or bytes, unit, symbols, folding and
             text_column. Not for lines and paragraphs, nor with `protect`
    protect  files of a test set, as `inputs`. Instead of repeated passages, gpulsh then marks the windows of items (as
             in `contamination`) everywhere in the documents that hold these items. `first_file` and `first_row` name
             the item, `first_start` is 0, and `occurrences` counts the item and the documents that hold it.
             `contamination.parquet` lists all items that documents hold, as in `deduplicate_files`
    passages, coverage, ignore_common
             with `protect`: `tokens` of a window, such as 13, and the other parameters of `contamination`
    cut      also write `data/` and `short.parquet`, as `cut_files` does with min_left, min_occurrences and format
    others   as in `deduplicate_files`. With on_error="skip", bad records are in `rejected.parquet`, and not in `data/`

    Returns a PassagesResult. Raises ParameterError, InputError, OutputError, MemoryLimitError or BackendError.

    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = Path(folder, "a.jsonl")
    ...     _ = lines.write_text(
    ...         '{"text": "One: please read this"}\\n{"text": "Two. Please read this!"}\\n'
    ...     )
    ...     result = passages_files(lines, Path(folder, "out"), tokens=3, backend="reference")
    ...     table = pq.read_table(result.passages)
    >>> table.select(["row", "start", "stop", "first_row", "first_start", "occurrences"]).to_pylist()
    [{'row': 1, 'start': 5, 'stop': 21, 'first_row': 0, 'first_start': 5, 'occurrences': 2}]
    """
    start = RunClock()
    # Each option alone.
    given = checked_paths("inputs", inputs)
    guarded = checked_paths("protect", protect, least=0)
    folders = _checked_folders(output, index, overwrite=overwrite, resume=resume)
    check_columns(id_column=id_column, within=within)
    check_choice("keep", keep, get_args(Keep))
    check_choice("on_error", on_error, get_args(OnError))
    check_type("whole_lines", whole_lines, bool)
    check_type("cut", cut, bool)
    read_options = ReadOptions(lines=lines, as_text=as_text, delimiter=delimiter, encoding=encoding)  # type: ignore[arg-type]
    cutting = _checked_cutting(min_left, min_occurrences, format)
    overlap = chosen_overlap(guarded, passages, coverage, ignore_common)
    machine = Machine(backend, threads, devices, memory, engine, address).checked()

    # Windows, or lines or paragraphs, and options that cannot be combined.
    size = window_size(tokens, bytes, unit, symbols, folding, normalize, whole_lines)
    bridge = check_integer("bridge", bridge, 0, size)
    most = checked_max_copies(unit, tokens, keep, bridge, whole_lines, max_copies, within)
    reading = Shingling(unit="word" if most else cast("Unit", unit), symbols=symbols)
    folding = with_form(folding, normalize)
    if not cut:
        unused = {"min_left": min_left != 20, "min_occurrences": min_occurrences != 2, "format": format is not None}
        refuse_given(unused, "{} is given without --cut; give --cut, too, or leave {} out")
    if guarded and overlap is None:
        raise ParameterError("--protect is given without --passages; give --passages, such as 13")
    if guarded:
        marking = {"tokens": tokens != 50, "bytes": bytes is not None, "keep": keep != "first", "bridge": bridge}
        marking |= {"whole_lines": whole_lines, "unit": bool(most), "on_error": on_error == "skip"}
        refuse_given(marking, "{} and --protect cannot be combined; leave one of them out")
    if index is not None:
        others = {f"unit {unit!r}": most, "protect": guarded}
        refuse_given(others, "--index and {} cannot be combined; leave one of them out")

    # The files, the job and its run.
    streams = Streams(read_options)  # to the end of the run
    files = input_files(
        given, guarded, streams, read_options, folders, on_error=on_error, engine=engine, new=not (overwrite or resume)
    )
    text, id = text_named(text_column), natural_id(files) if id_column is None else id_column
    columns = Columns(text=text, id=id, copy_key=within, copy_key_option="--within")
    if cut:
        files = _name_cut_outputs(files, columns, guarded, cutting)
    job = PassagesJob(
        files=tuple(files),
        on_error=on_error,
        columns=columns,
        stamps=Stamps.of(files),
        read_options=read_options,
        tokens=size,
        of_bytes=bytes is not None,
        keep=keep,
        bridge=bridge,
        whole_lines=whole_lines,
        part=cast("Part", unit) if most else None,
        max_copies=most or 0,
        protected_inputs=tuple(guarded),
        overlap=overlap,
        unit=reading,
        folding=folding or Folding(),
        cutting=cutting if cut else None,
        index=None if folders.index is None else os.path.realpath(folders.index),
    )
    earlier = None if job.index is None else PassagesIndex(Path(job.index), job.index_parameters())

    @contextmanager
    def results(job: PassagesJob, run: OpenRun) -> Iterator[Mapping[str, Any]]:
        with earlier or nullcontext():
            job = job if earlier is None else earlier.add_earlier(job, run.manifest)
            with run.engine.running(job, run.work, run.manifest, run.progress) as runner:
                stages = Stages(runner, run.progress, job.cut.parallel is not None)
                found = _run_stages(job, run.engine.ops, stages, run.work)
                if earlier is not None:
                    with stages.funnel.stage(run.progress, PASSAGE_STAGES["store"], 1):
                        earlier.copy_files(job, run.manifest, run.work)
            yield {**found, "stages": stages.funnel.seconds, "resumed": stages.funnel.resumed}
            if earlier is not None:
                earlier.commit(run.manifest)

    how: Any = {"overwrite": overwrite, "resume": resume, "machine": machine, "progress": progress}
    how |= {"start": start, "inputs": given, "secret": chosen_secret(secret)}
    output = Path(folders.output)
    return PassagesResult(output, run_job(job, output, results, write_passages_page, **how))


def _run_stages(job: PassagesJob, ops: Backend, stages: Stages, work: Path) -> Mapping[str, Any]:
    """Run the stages; their part of the report."""
    how = mark_protected_items if job.overlap else pick_parts if job.part else mark_partitions
    marked = how(job, ops, stages)
    counts = {**marked.counts, **(cut_all(job, ops, stages, work / FILE) if job.cutting else {})}
    stages.release_texts()
    rows, names = marked.layout.rows(), [file.name for file in job.files]

    def row_of(document: int) -> dict[str, object]:
        file = int(marked.layout.file_of(np.array([document]))[0])
        return {"file": names[file], "row": document - int(marked.layout.files[file])}

    frequent = [
        {"occurrences": occurrences, "tokens": tokens, **row_of(document), "start": start, "stop": stop, "text": text}
        for occurrences, tokens, _, document, start, stop, text in marked.frequent
    ]
    return {
        "files": [{"file": names[number], "rows": rows[number]} for number in job.own_files()],
        "passages": counts,
        "windows": list(marked.classes),
        "frequent": frequent,
        "outputs": result_files(work),
    }


@known_keywords
def cut_files(
    inputs: Input | Sequence[Input],
    output: Input,
    *,
    passages: Input,
    min_left: int = 20,
    min_occurrences: int = 2,
    format: FormatName | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    devices: Sequence[int] | None = None,
    memory: int | str | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Show = False,
) -> CutResult:
    """Write files without the passages that `passages_files` found in them.

    The folder gets `data/` with all rows and columns, `short.parquet` with `file`, `row` and the `tokens` left of each
    dropped document, and `report.json`. Only texts change; in JSON lines, all other bytes stay. WARC needs `format`.

    inputs           the files in which the passages were found, unchanged
    output           a local folder that is new or empty; see `overwrite` and `resume`
    passages         passages.parquet of that run, which also names the text column and the kind of tokens
    min_left         drop documents that lose text and have fewer tokens left
    min_occurrences  keep passages that occur less often
    others           as in `deduplicate_files`

    Returns a CutResult. Raises ParameterError, InputError, OutputError, MemoryLimitError or BackendError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines, out = Path(folder, "a.jsonl"), Path(folder, "out")
    ...     _ = lines.write_text(
    ...         '{"text": "One: please read this"}\\n{"text": "Two. Please read this! No."}\\n'
    ...     )
    ...     found = passages_files(lines, out, tokens=3, backend="reference")
    ...     where = {"passages": found.passages, "min_left": 1, "backend": "reference"}
    ...     print((cut_files(lines, Path(folder, "cut"), **where).data / "a.jsonl").read_text())
    {"text": "One: please read this"}
    {"text": "Two. ! No."}
    <BLANKLINE>
    """
    start = RunClock()
    cutting = _checked_cutting(min_left, min_occurrences, format)
    given, folders = checked_paths("inputs", inputs), _checked_folders(output, None, overwrite=overwrite, resume=resume)
    (path,) = checked_paths("passages", passages)
    if is_url(path):
        raise InputError(f"{path}: is a URL; copy the file to this machine, and give its path")
    read_options, on_error, columns, unit, folding = reading_of(Path(path))
    machine = Machine(backend, threads, devices, memory, engine, address).checked()
    streams = Streams(read_options)  # to the end of the run
    try:
        files = input_files(
            given, (), streams, read_options, folders, on_error=on_error, engine=engine, new=not (overwrite or resume)
        )
    except (InputError, ParameterError) as error:
        if error.message == str(error):  # without advice of an option, which a cut does not have
            raise
        raise InputError(f"{error.message}; {path} says how files are read, so give the INPUT of its run") from error
    files = _name_cut_outputs(files, columns, (), cutting)
    refuse_overlap(folders.output, [], [File(path, path, path)])
    stamps = Stamps.of(files)
    _refuse_changed(Path(path), stamps)
    stamp = os.stat(path)
    job = CutJob(
        files=tuple(files),
        on_error=on_error,
        columns=columns,
        stamps=stamps,
        read_options=read_options,
        passages=path,
        passages_stamp=(stamp.st_size, stamp.st_mtime_ns),
        cutting=cutting,
        unit=unit,
        folding=folding,
    )

    @contextmanager
    def results(job: CutJob, run: OpenRun) -> Iterator[Mapping[str, Any]]:
        with run.engine.running(job, run.work, run.manifest, run.progress) as runner:
            stages = Stages(runner, run.progress, job.cut.parallel is not None)
            counts = cut_all(job, run.engine.ops, stages, Path(path))
        found = {"passages": counts, "outputs": result_files(run.work)}
        yield {**found, "stages": stages.funnel.seconds, "resumed": stages.funnel.resumed}

    how: Any = {"overwrite": overwrite, "resume": resume, "machine": machine, "progress": progress}
    how |= {"start": start, "inputs": given, "secret": chosen_secret(None)}
    output = Path(folders.output)
    return CutResult(output, run_job(job, output, results, None, **how))


def _refuse_changed(passages: Path, stamps: Stamps) -> None:
    """ChangedInputError if a file has changed since the run of this passages.parquet read it."""
    report = read_report(passages.with_name(REPORT))
    known = report["job"].get("inputs", {}) if is_finished(report) else {}  # otherwise it is somebody else's
    for file, now in zip(stamps.files, stamps.known, strict=True):
        before = known.get(file.name)
        size = 1 if file.copied else 2  # a copied stream has another time each time
        if before is not None and before[:size] != now[:size]:
            raise ChangedInputError(
                f"{file.name}: was written to after its passages were found; find them again with `gpulsh passages`"
            )


def _checked_cutting(min_left: int, min_occurrences: int, format: FormatName | None) -> Cutting:
    min_left, min_occurrences = checked_limits(min_left, min_occurrences)
    check_choice("format", format, (None, *get_args(FormatName)))
    return Cutting(min_left=min_left, min_occurrences=min_occurrences, format=format)


def _name_cut_outputs(files: Sequence[File], columns: Columns, protect: Sequence[str], cutting: Cutting) -> list[File]:
    """The files, with the names of their outputs; an error if they cannot be written without passages."""
    refuse_uncuttable([file for file in files if file.source not in protect], columns, cutting.format)
    return name_outputs(files, protect, cutting.format)


def _checked_folders(output: object, index: object, *, overwrite: bool, resume: bool) -> Folders:
    """The folders of a run; ParameterError or OutputError if they are not possible."""
    check_overwrite_resume(overwrite, resume)
    folders = Folders.chosen(output, None, index)
    refuse_url(folders.output)
    return folders
