"""`gpulsh.deduplicate_files`: a job over files, from its parameters to its results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from gpulsh.backends.select import BackendName
from gpulsh.budget import parse_memory
from gpulsh.checks import check_choice, check_type, known_keywords, shown
from gpulsh.decide.counts.retention import Retention
from gpulsh.decide.counts.weights import WeightBy, parse_recipe
from gpulsh.errors import InputError, ParameterError, refuse_given
from gpulsh.io.columns import Columns, text_named
from gpulsh.io.conversion import FormatName
from gpulsh.io.files.inputs import natural_id
from gpulsh.io.files.no_documents import COUNTED
from gpulsh.io.files.pipes import Streams, is_stream
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.files.readers import Reader
from gpulsh.io.output_codec import OutputCodec
from gpulsh.io.stamps import Stamps
from gpulsh.method import MeasureName, Method, Resolve, Verify, given_parameters
from gpulsh.params import BitSketch, EvidenceName, Folding, NormalForm, Shingling, Sketch, with_form
from gpulsh.report.page import write_page
from gpulsh.run import file_run
from gpulsh.run.driver import Stages, deduplicate_partitions
from gpulsh.run.engines import EngineName, Machine
from gpulsh.run.file_run import Input, OpenRun, RunClock, run_job, system_errors_as_output_errors, with_cut
from gpulsh.run.job import EarlierIndex, Job, JobContext, OnError
from gpulsh.run.key_rule import KeyRule, refuse_with_key
from gpulsh.run.output.finished import Finished, weigh_run
from gpulsh.run.output.folder import OutputFolder
from gpulsh.run.output.paths import Folders
from gpulsh.run.output.remote import RemoteFolder
from gpulsh.run.policy import Counting, Policy, Write, refuse_without_columns
from gpulsh.run.progress import Show
from gpulsh.run.report import finished_report, planned_report
from gpulsh.secret import chosen_secret, evidence_keys
from gpulsh.sketch.named import sketches_by_name
from gpulsh.stats.stages import Funnel


@dataclass(frozen=True, repr=False)
class FilesResult:
    """The results of `deduplicate_files`: their place, and the report, which is also in report.json."""

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
        """The folder of the written rows; None if `write` is "duplicates"."""
        return self._below("data") if self.report["parameters"]["write"] != "duplicates" else None

    @property
    def duplicates(self) -> Path | str:
        """The Parquet file with a row for each dropped document."""
        return self._below("duplicates.parquet")

    @property
    def contamination(self) -> Path | str | None:
        """The Parquet file with a row for each document and protected item in it; None without `passages`."""
        return self._below("contamination.parquet") if "passages" in self.report["parameters"] else None

    @property
    def clusters(self) -> Path | str | None:
        """The Parquet file of counts, with a row for each kept document with duplicates; None with an index."""
        return self._below(COUNTED) if COUNTED in self.report["outputs"] else None

    def weigh(self, output: Input, weights: str | Mapping[int, float], *, weight_by: WeightBy = "verified") -> int:
        """Write the rows to a new folder `output`, with a column of sampling weights, and return their number.

        It does for a finished run what `weights` of `deduplicate_files` does. Raises OutputError if `output` is not
        empty or the run wrote no rows, InputError if a file has a column `weight` or its format takes no columns.
        """
        return weigh_run(self.output, output, weights, weight_by=weight_by)

    def shares(self, column: str) -> pa.Table:
        """Count the documents, and the dropped documents, for each value of a column.

        Returns a pyarrow.Table with `value` string, `documents` and `dropped` int64, the most frequent values first.
        The values are read again: InputError if INPUT has no such column or has changed since the run, ParameterError
        if it has more than 2^20 values.
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
    key: str | None = None,
    normalize_url: bool = False,
    key_only: bool = False,
    keep: str | None = None,
    protect: Input | Sequence[Input] = (),
    passages: int | None = None,
    coverage: float = 0.8,
    ignore_common: int | None = None,
    within: bool = False,
    across: bool = False,
    min_cluster: int | None = None,
    max_copies: int | None = None,
    min_sources: int | None = None,
    index: Input | None = None,
    evidence: EvidenceName | None = None,
    write: Write = "data",
    add_counts: bool = False,
    source_column: str | None = None,
    date_column: str | None = None,
    weights: str | Mapping[int, float] | None = None,
    weight_by: WeightBy = "verified",
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
    drop_contained_only: bool = True,
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
    """Find near-duplicate documents in files, and write the kept rows and the evidence to a folder.

    The folder gets `data/` with the kept rows, and `duplicates.parquet` with a row for each dropped document.
    `clusters.parquet` has the counts of each kept document with duplicates (`gpulsh.stats.counts` lists the columns).
    `report.json` and, with the extra `report`, `report.html` describe the run. `data/` has one file for each input
    file, with every column. With several folders or globs, or equal file names, each input has its own folder there,
    named after the shortest unique end of its path. For parameters not listed here, see `deduplicate`; None is its
    default.

    inputs          files, folders, globs or URLs: Parquet, Arrow IPC, WARC and WET (plain, .gz), JSON lines, a JSON
                    array of objects (.json), CSV and TSV with a header, or plain text, one document per file (plain,
                    .gz, .bz2, .xz, .zst). Named pipes and "-", standard input, are read once, into a temporary file in
                    TMPDIR. If a pipe's name has no known ending, the first bytes decide: JSON, a header with commas or
                    tabs, or with `lines` any text
    output          a folder that is new or empty; see `overwrite` and `resume`. To a URL that fsspec can write to,
                    gpulsh uploads the finished results, report.json last
    text_column     the column or JSON field of the text. "meta.body" is a field of an object. ["title", "body"] and
                    "title,body" join several by a line end and leave out nulls. "column:a.b" is the column of that name
    lines           treat each line of a text file as a document
    as_text         a pattern of file names such as "*.py", or a list of patterns: each such file is one text. A pattern
                    with a slash applies to paths. In folders, gpulsh then reads only these files, including names with
                    a leading "_"
    delimiter       of CSV and TSV files, such as ";" or "tab". None: by the name of the file
    encoding        of CSV, TSV and text files, such as "latin-1". None: UTF-8. Kept rows are copied unchanged
    id_column       ids of documents, for the evidence and an index. "meta.id" is a field of an object, unless a column
                    has that name. None: the record id in WARC files, and no id in others
    key             a column, such as a URL or a hash, of text, bytes or integers. Documents with equal values are
                    copies: the first by `keep` stays, before texts are compared. Null and empty values equal no other
                    value. `similarity` is NaN for these copies, and duplicates.parquet has the column `reason`. Not
                    with `across` or `index`
    normalize_url   compare the values of `key` as URLs, in the canonical form of w3lib (the extra `url`)
    key_only        compare only keys, not texts
    drop_contained_only
                    with measure="containment". False: two documents are duplicates if either contains `threshold` of
                    the other's shingles, and the later by `keep` is dropped, even if it is longer. Not with `index`
    keep            which of two duplicates to keep: the "first", the "longest" text in bytes, the one with the highest
                    value in the column of this name (numbers or dates, also ISO 8601 text), or with "source:A,B" the
                    one from the INPUT listed first. None: "longest" if `measure` is "containment" without an index,
                    otherwise "first"
    protect         files, as `inputs`, with the same columns for texts, ids and `keep`. Their documents are never
                    dropped or written, but duplicates of them are dropped
    passages        also drop documents that quote a document of `protect`, in windows of this many words, such as 13
                    (`tokens` of `gpulsh.contamination`; the shingling gives `unit` and `symbols`). They are dropped
                    first, so no document is dropped as a duplicate of them. `contamination.parquet` lists them
                    (`gpulsh.stats.counts.CONTAMINATION`). A quarter of `memory` must hold 128 bytes for each window of
                    the protected documents
    coverage        the minimum share of a protected document's words in such windows
    ignore_common   ignore windows of more than this many protected documents. None: ignore none
    within, across  compare only documents of the same INPUT, or only documents of different INPUTs. With
                    resolve="components", a chain through another INPUT can connect two documents of one INPUT
    min_cluster     drop documents only from clusters (connected components of verified pairs) of at least this size
    max_copies      keep up to this many of a kept document and its duplicates, the first by `keep`
    min_sources     leave out a kept document and its duplicates if they have fewer sources. Duplicates of protected
                    documents are dropped in any case. Not with `min_cluster` or `max_copies`
    index           folder of an index of earlier runs, created if it does not exist. Its documents come before all
                    others, and the run adds its own, kept or dropped, by `id_column` or FILE:ROW. Parameters that are
                    not given come from the index. `keep` orders only the documents of a run; any value but "first"
                    copies their texts to the work folder. This process verifies them exactly, with either engine
    evidence        of a new index: "index" stores the shingles of kept documents. "source" stores about 360 bytes per
                    kept document with the default bands and reads texts again from INPUT, so INPUT must stay in
                    place. None: "index", or as in an existing index
    write           "data", "duplicates" for only the evidence, or "marked" for all rows, with columns for the decision
                    and the counts (`gpulsh.stats.counts` lists them). A row is in "data" if `kept`
    add_counts      add the columns of counts to kept rows
    source_column   the column with the source of each document, for the counts. None: each INPUT is a source
    date_column     the column of dates, for the first and last date in the counts: dates, datetimes, or strings of ISO
                    8601; UTC without an offset
    weights         add a column `weight` to written rows and to clusters.parquet: "txt360", "log", "cap:5", a file of
                    buckets such as "weights.json", or a mapping (`gpulsh.decide.counts.weights`)
    weight_by       the size that decides a weight: "verified", which is 1 + copies + near, or "component"
    format          "parquet" or "jsonl": the format and ending of files of kept rows. None: the format of the input.
                    The fields of JSON lines get types that hold all their values. WARC gives the columns id, url, date
                    and text; a text file gives text. A file of another format without kept rows is not written
    compression     codec and level of kept rows, such as "zstd:9" or "snappy": any codec for Parquet; for .gz and .zst
                    files, a level of their own codec; for JSON lines made by `format`, none, gzip or zstd. None: the
                    codec of the input at the library's default level, and zstd for Parquet made from other formats
    reader          "cudf" decodes the text of Parquet files on the device of the CUDA backend
    on_error        "fail" stops at a bad record; "skip" lists it in `rejected.parquet` and continues (see
                    `gpulsh.io.files.rejected`)
    memory          memory for the run, such as "4GiB", or bytes: at least 512 MiB, and four times the largest document.
                    gpulsh divides the work to fit. None: 8 GiB, or half of the machine's memory if that is less
    engine          "ray" runs on the Ray cluster at `address`. None: at RAY_ADDRESS, or a new one on this machine. All
                    nodes must see inputs and output under the same paths. `memory` and `threads` apply to each worker
                    (4 GiB and 4, or less on smaller nodes). With CUDA, each worker has a GPU
    work            if `output` is a URL: a local folder, new or empty, for the results before the upload; `resume`
                    needs it. None: a new folder in TMPDIR
    overwrite       replace the results of an earlier run in `output`
    resume          continue an unfinished run of the same job, with the same `memory` or more; a finished run is left
                    unchanged
    dry_run         check the parameters, the heads of the files and `output`, and write nothing. The report then has
                    `parameters`, `files` and the planned `outputs`, without counts
    progress        True shows bars, or lines without a terminal; "json" writes JSON lines to standard error, with the
                    "begin" and the "end" of each stage, seconds, amounts and rates
    secret          32 bytes that key the evidence, for tests; no byte of the results depends on them. None: random for
                    each run, or the secret of the index. The work folder holds the secret during the run

    Returns a FilesResult. Raises ParameterError, InputError, OutputError, MemoryLimitError or BackendError. After such
    an error, gpulsh removes its files, unless `resume` can continue from them. After KeyboardInterrupt or SystemExit
    the finished work stays.

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
    start = RunClock()
    # Each option alone.
    given = file_run.checked_paths("inputs", inputs)
    guarded = file_run.checked_paths("protect", protect, least=0)
    folders = Folders.chosen(output, work, index)
    file_run.check_overwrite_resume(overwrite, resume)
    file_run.check_columns(id_column=id_column, source_column=source_column, date_column=date_column)
    for name, value, names in (
        ("write", write, get_args(Write)),
        ("format", format, (None, *get_args(FormatName))),
        ("reader", reader, get_args(Reader)),
        ("on_error", on_error, get_args(OnError)),
        ("measure", measure, (None, *get_args(MeasureName))),
        ("weight_by", weight_by, get_args(WeightBy)),
    ):
        check_choice(name, value, names)
    for name, flag in {"add_counts": add_counts, "within": within, "across": across, "dry_run": dry_run}.items():
        check_type(name, flag, bool)
    check_type("drop_contained_only", drop_contained_only, bool)
    read_options = ReadOptions(lines=lines, as_text=as_text, delimiter=delimiter, encoding=encoding)  # type: ignore[arg-type]
    text_column, rule = text_named(text_column), KeyRule.chosen(key, normalize_url, key_only)
    retention = Retention.from_arguments(min_cluster, max_copies, min_sources)
    recipe = None if weights is None else parse_recipe(weights)
    counting = Counting(source_column, date_column, add_counts, recipe, weight_by)
    codec = None if compression is None else OutputCodec.parse(compression)
    overlap = file_run.chosen_overlap(guarded, passages, coverage, ignore_common)
    run_secret = chosen_secret(secret)
    machine = Machine(backend, threads, devices, memory, engine, address).checked()

    # Options that cannot be combined.
    if folders.is_remote and work is None and engine == "ray":
        raise ParameterError("output is a URL and engine is 'ray'; give --work, a folder that all nodes see")
    if evidence is not None and index is None:
        raise ParameterError(f"evidence is {shown(evidence)}, and no index is given; leave it out, or give one")
    if weights is None and weight_by != "verified":
        raise ParameterError(f"--weight-by is {weight_by!r} without --weights; give --weights, or leave it out")
    if write == "duplicates":
        if retention.min_sources > 1:
            raise ParameterError(
                f"--min-sources is {min_sources} and --write is 'duplicates', which does not list what is left out;"
                " leave one of them out"
            )
        of_rows = {"format": format is not None, "compression": compression is not None, "add_counts": add_counts}
        refuse_given(of_rows, "{} is given and --write is 'duplicates', which writes no rows; leave one of them out")
    if write == "marked" and overlap is not None:
        raise ParameterError("--passages and --write 'marked' cannot be combined; leave one of them out")
    if rule is not None:
        refuse_with_key({"across": across, **retention.to_json()})
        if reader == "cudf":
            raise ParameterError("--key is given, and --reader is 'cudf', which reads no keys; give --reader arrow")
    if dry_run:
        _refuse_dry_run(folders, engine, [*given, *guarded])

    # The method and the policy, which decide the results.
    sketch, also = sketches_by_name(sketch, also, num_perm, seed, distance)
    parameters = given_parameters(
        threshold=threshold,
        shingling=shingling,
        folding=with_form(folding, normalize),
        sketch=sketch,
        num_perm=num_perm,
        bands=bands,
        rows=rows,
        seed=seed,
        distance=distance,
        measure=measure,
    )
    if index is None:
        method = Method.choose(
            **parameters, verify=verify, resolve=resolve, also=also, drop_contained_only=drop_contained_only
        )
    else:
        from gpulsh.run.index.earlier_runs import EarlierRuns, refuse_with_index

        refused = {"protect": guarded, "within": within, "across": across, "also": also, "key": key}
        refused |= {**retention.to_json(), **counting.to_json()}
        refused |= {"write 'marked'": write == "marked", "drop_contained_only=False": not drop_contained_only}
        refuse_with_index({"verify": verify, "resolve": resolve}, on_error, id_column, refused)
    if keep is None:
        keep = "longest" if measure == "containment" and index is None else "first"
    policy = Policy(keep, tuple(given), tuple(guarded), within, across, overlap, retention)

    # The files, and the index of earlier runs.
    streams = Streams(read_options)  # to the end of the run
    files = file_run.input_files(
        given, guarded, streams, read_options, folders, on_error=on_error, engine=engine, new=not (overwrite or resume)
    )
    policy.check_sources(files, source_column)
    added = counting.added_columns(write)
    if added:
        refuse_without_columns([file for file in files if file.source not in guarded], format)
    files = file_run.name_outputs(files, guarded, format, codec)
    earlier = None
    if folders.index is not None:
        own_threads = machine.threads if engine == "local" else None  # of this process, not of a worker
        device = {"backend": backend, "threads": own_threads, "devices": devices, "memory": parse_memory(memory)}
        earlier = EarlierRuns(folders.index, id_column, parameters, device, run_secret, evidence)
        method = earlier.method()

    job = Job(
        method=method,
        policy=policy,
        files=tuple(files),
        columns=Columns(
            text=text_column,
            order=policy.order_column,
            id=natural_id(files) if id_column is None else id_column,
            copy_key=key,
            more=counting.input_columns(),
            added=frozenset(added),
            unwritten=tuple(guarded),
        ),
        on_error=on_error,
        write=write,
        stamps=Stamps.of(files),
        earlier=EarlierIndex(os.path.realpath(earlier.path), id_column) if earlier else None,
        key=rule,
        format=format,
        codec=codec,
        read_options=read_options,
        counting=counting,
        reader=reader,
    )
    others = {"id_column": id_column, "threads": machine.threads, "reader": reader}

    @contextmanager
    def results(job: Job, run: OpenRun) -> Iterator[Mapping[str, Any]]:
        with run.engine.running(job, run.work, run.manifest, run.progress) as runner:
            context = JobContext(job, run.work, run.engine.ops, run.progress, evidence_keys(run.manifest.secret))
            decider = earlier.decider(context, run.manifest, remote=run.engine.remote) if earlier else None
            stages = Stages(runner, run.progress, job.cut.parallel is not None)
            decided = deduplicate_partitions(job, run.work, run.engine.ops, stages, decider)
        parameters = {**job.parameters(), **others, "memory": run.engine.memory}
        yield finished_report(job, parameters, run, decided, stages)

    out = Path(folders.output)
    if dry_run:
        with system_errors_as_output_errors(out), machine.open_engine() as opened:
            job = with_cut(job, opened)
            job.texts(opened.ops).check()
            OutputFolder(out, overwrite=overwrite, resume=resume).check(job.to_json(), job.step_parameters())
            return FilesResult(out, planned_report(job, {**job.parameters(), **others, "memory": opened.memory}))
    former: Any = {"overwrite": overwrite, "resume": resume}
    how: Any = {**former, "machine": machine, "progress": progress, "secret": run_secret}
    how |= {"start": start, "inputs": given}
    if not folders.is_remote:
        return FilesResult(out, run_job(job, out, results, write_page, **how))
    with RemoteFolder(folders.output, folders.work, **former) as remote, system_errors_as_output_errors(remote.local):
        report = remote.finished(job.to_json()) if resume else None
        if report is None:
            report = run_job(job, remote.local, results, write_page, **how)
            remote.put(report)
        return FilesResult(remote.url, dict(report))


def _refuse_dry_run(folders: Folders, engine: EngineName, inputs: Sequence[str]) -> None:
    """The error of a run that --dry-run cannot check."""
    if folders.is_remote:
        raise ParameterError(f"--dry-run checks only local folders, and output is {folders.output!r}; give one")
    if engine != "local":
        raise ParameterError(f"--dry-run checks only this machine, and engine is {engine!r}; leave out one of them")
    if folders.index is not None:
        raise ParameterError("--dry-run cannot know the effect of an index; leave out one of them")
    if (pipe := next(filter(is_stream, inputs), None)) is not None:
        raise InputError(f"{pipe}: can be read only once, and --dry-run would read it; give a file")
