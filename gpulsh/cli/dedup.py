"""`gpulsh dedup` removes near-duplicates from files; `gpulsh sign` writes their signatures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import UTC, datetime
from typing import Any

import click

from gpulsh.cli import options as opt
from gpulsh.cli.terminal import conclude, note, say

SECTIONS = {  # first option -> heading
    "text_column": "Input",
    "output": "Output",
    "threshold": "Duplicates",
    "key": "Copies by a key",
    "keep": "Which of two duplicates to keep",
    "sketch": "Candidates",
    "backend": "Machine",
}
COMMON = (
    *("output", "text_column", "id_column", "threshold", "shingle", "keep", "protect"),
    *("on_error", "memory", "dry_run", "resume", "overwrite"),
)
SHOWN = 12  # files that a run would write
EXAMPLES = {  # command -> its purpose; --help shows the first three
    "gpulsh dedup crawl/ -o clean/": "A folder of Parquet, JSON lines, CSV, WARC or text files",
    "gpulsh dedup posts.jsonl.gz -o clean/ --text-column body --id-column id": "Another column; ids in the evidence",
    "gpulsh dedup train/ -o clean/ --protect test/": "Drop near-duplicates of a test set from a training set",
    "gpulsh dedup train/ -o clean/ --protect test/ --passages 13": "Also drop pages that quote a test question",
    "gpulsh dedup crawl/ -o clean/ --format parquet": "Write kept rows of any input as Parquet",
    "gpulsh dedup titles.csv -o clean/ --text-column title --shingle char:4+symbols": "Texts of a few words",
    "gpulsh dedup code/ -o clean/ --as-text '*.py'": "Source files, each a document",
    "gpulsh dedup march/ -o clean/march --index known/": "Also drop duplicates of earlier months",
    "gpulsh dedup s3://lake/crawl/ -o s3://lake/clean/ --work /scratch/clean": "From a bucket to a bucket",
    "gpulsh dedup crawl/ -o clean/ --dry-run": "Estimate time, memory and disk before a run",
    "gpulsh dedup crawl/ -o clean/ --resume": "Resume a killed run",
}


def _device_numbers(ctx: click.Context, option: click.Parameter, given: str | None) -> list[int] | None:
    if given is None:
        return None
    parts = given.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise click.BadParameter(f"{given!r} is not a list of device numbers; give them as 0,1", ctx, option)
    return [int(part) for part in parts]


@click.command(
    cls=opt.SectionedCommand,
    sections=SECTIONS,
    examples=EXAMPLES,
    common=COMMON,
    short_help="Remove near-duplicates from files.",
)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@opt.text_options(ids="Column or field of ids, which name the documents in duplicates.parquet.")
@opt.on_error
@opt.value(
    "-o --output",
    "OUT",
    "Folder or URL for the results: kept rows in data/, evidence in duplicates.parquet, counts in report.json.",
    required=True,
)
@opt.choice(
    "--write",
    "data",
    "duplicates",
    "marked",
    help="Write kept rows and evidence, the evidence alone, or all rows with marks.",
)
@click.option(
    "--format",
    type=click.Choice(["parquet", "jsonl"]),
    help="Format of the kept rows; from WARC, with the columns id, url, date and text."
    "  [default: match the input's format]",
)
@opt.value(
    "--compression",
    "CODEC[:LEVEL]",
    "Codec of the kept rows. For Parquet: none, snappy, lz4, gzip, brotli or zstd, such as zstd:9. For --format"
    " jsonl: none, gzip or zstd. For other .gz and .zst files: a level of their own codec."
    "  [default: as in the input; zstd for Parquet from other formats]",
)
@opt.flag("--add-counts", "Add counts to kept rows: copies, near, component, sources.")
@opt.value(
    "--weights",
    "FILE.json|txt360|log|cap:N",
    "Add a column of sampling weights, by the number of documents that a kept one represents; 0 for rows that"
    " --write marked adds.",
)
@opt.choice(
    "--weight-by", "verified", "component", help="Weight by 1 + copies + near, or by the size of the component."
)
@opt.value("--source-column", "NAME[.FIELD]", "Column with the source of a document.  [default: its INPUT]")
@opt.value("--date-column", "NAME[.FIELD]", "Column of dates, for first_seen and last_seen.")
@opt.value(
    "--work",
    "PATH",
    "Local folder with room for the results, if OUT is a URL; --resume needs it.  [default: a new folder in TMPDIR]",
)
@opt.overwrite_and_resume
@opt.flag("--dry-run", "Check options, INPUT and OUT, run a sample, and print an estimate of the run; write nothing.")
@opt.report
@opt.method_options("threshold", "shingle", "normalize", "measure")
@click.option(
    "--drop-contained-only/--drop-containing",
    default=True,
    show_default=True,
    help="With --measure containment: drop only documents contained in a kept one, or also documents that contain one.",
)
@opt.choice(
    "--verify",
    "exact",
    "signature",
    "none",
    help="Compare candidates exactly, by their signatures, or not at all: then every candidate pair counts.",
)
@opt.value(
    "--key",
    "COLUMN",
    "Treat documents with equal values in this column, such as a URL, as copies; the first by --keep stays."
    " An empty value equals no other.",
)
@opt.flag("--normalize-url", "Compare the values of --key as URLs, in canonical form.")
@opt.flag("--key-only", "Compare only the values of --key, not the texts.")
@opt.value(
    "--keep",
    "first|longest|source:INPUT,...|COLUMN",
    "Which of two duplicates to keep: the first, the longer, the one from the first INPUT of a list, or the one"
    " with the highest number or latest date in a column."
    "  [default: first; longest with --measure containment, but not with --index]",
)
@opt.choice(
    "--resolve",
    "kept",
    "components",
    help="Drop only duplicates of kept documents, or all but one document of each connected component.",
)
@opt.protect_options(
    "Documents to protect, such as a test set: never dropped or written, but their duplicates are dropped."
    " They need every column that an option names. May be repeated.",
    "Also drop documents that quote a protected document, such as a test question, by windows of N words (for example"
    " 13). contamination.parquet lists them.",
)
@opt.number("--min-cluster", "K", "Drop documents only from clusters of K or more.")
@opt.number("--max-copies", "K", "Keep up to K copies of each document.")
@opt.number("--min-sources", "K", "Keep only documents that at least K sources have, once each.")
@opt.flag("--within", "Compare only documents of the same INPUT, and protected ones with all.")
@opt.flag(
    "--across",
    "Compare only documents of different INPUTs. With --resolve components, a chain through another INPUT can"
    " connect two of one INPUT.",
)
@opt.value(
    "--index",
    "PATH",
    "Index of earlier runs, created if missing: also drop duplicates of its documents, and add the new ones by"
    " id or FILE:ROW. Its documents stay, whatever --keep says.",
)
@click.option(
    "--evidence",
    type=click.Choice(["index", "source"]),
    help="Evidence in a new index: the shingles of kept documents (index), or only hashes, with texts read again from"
    " INPUT (source)."
    "  [default: index, or as in the index]",
)
@opt.method_options("sketch", "num-perm", "bands", "rows", "seed")
@opt.value(
    "--and also",
    "simhash[:BITS][:DISTANCE]",
    "Compare only candidates whose SimHash signatures differ in at most DISTANCE bits."
    "  [default DISTANCE: chosen for the threshold]",
)
@opt.backends
@opt.value(
    "--devices",
    "N[,N...]",
    "Numbers of the CUDA devices that share the work.  [default: all]",
    callback=_device_numbers,
)
@opt.choice("--reader", "arrow", "cudf", help="Reader of Parquet files; cudf needs --backend cuda.")
@opt.engine
@click.pass_obj
def dedup(verbose: bool, /, inputs: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """Write INPUT without its near-duplicates to OUT.

    INPUT is a file, folder, glob or URL, or - for standard input. Formats are Parquet, Arrow IPC, WARC and WET (plain,
    .gz). JSON lines or arrays, CSV and TSV with a header, and text may be plain, .gz, .bz2, .xz or .zst. A quoted glob
    is one INPUT; a glob that the shell expands is several.

    gpulsh writes the kept rows to OUT/data, file by file. With several folders or globs, or equal names, each INPUT has
    a folder there, named after the end of its path. duplicates.parquet names the kept duplicate of each dropped
    document. report.json has all counts; report.html shows them, if jinja2 is installed
    (pip install "gpulsh[report]").

    With --engine ray, all nodes must see INPUT and OUT under the same paths, because stages exchange files in
    OUT/_work.

    --verbose also prints a table of all counts, or the traceback of an error.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    with enforced_memory(options):
        from gpulsh.run.files import deduplicate_files

        if options["dry_run"]:
            _dry_run(inputs, output, as_json, options)
            return
        result = deduplicate_files(
            list(inputs), output, progress="json" if as_json else True, **opt.given_options(options)
        )
    report = result.report
    if as_json:
        conclude(json.dumps(report, indent=2))
        return
    if not report.get("page", {}).get("written", True):
        note(f"gpulsh: {report['page']['reason']}, then `gpulsh report OUT`")
    from gpulsh.report.summary import funnel_table, summary

    table = f"{funnel_table(report)}\n\n" if verbose else ""
    conclude(table + summary(report, output, earlier=datetime.fromisoformat(report["began"]) < now))


@contextmanager
def enforced_memory(options: Mapping[str, Any]) -> Iterator[None]:
    """Let the kernel enforce `--memory`, except on CUDA."""
    if options["engine"] == "ray":  # its workers limit themselves
        # Ray prints which of its processes ended, and standard output is for the result.
        with redirect_stdout(sys.stderr):
            yield
        return
    from gpulsh.backends.parallel import processors
    from gpulsh.backends.select import backend_status
    from gpulsh.budget import parse_memory
    from gpulsh.memory_limit import memory_limit

    on_device = options["backend"] == "cuda" or (options["backend"] == "auto" and backend_status()["cuda"] is None)
    limit = memory_limit(parse_memory(options["memory"]), options["threads"] or processors())
    with nullcontext() if on_device else limit:
        yield


def _dry_run(inputs: tuple[str, ...], output: str, as_json: bool, options: Mapping[str, Any]) -> None:
    from gpulsh.cli.plan import sample_lines
    from gpulsh.forecast.sample import plan
    from gpulsh.run.files import deduplicate_files

    report = deduplicate_files(list(inputs), output, **opt.given_options(options)).report
    left_out = ("dry_run", "overwrite", "resume", "engine", "work")
    found = plan(inputs, {name: value for name, value in options.items() if name not in left_out})
    outputs = [f"{output.rstrip('/')}/{name}" for name in report["outputs"]]
    if as_json:
        say(json.dumps({**found, "outputs": outputs}, indent=2))
        return
    some = outputs if len(outputs) <= SHOWN else [*outputs[: SHOWN - 1], f"and {len(outputs) - SHOWN + 1:,} more files"]
    names = (f"  {name}" for name in some)
    say("\n".join([*sample_lines(found), "", "Nothing was written. The run would write", *names]))


@click.command(short_help="Write signatures and band digests of files, for SQL engines.")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@opt.value("-o --output", "FILE", "Parquet file to write.", required=True)
@opt.flag("--overwrite", "Replace FILE, if gpulsh wrote it.")
@opt.text_options(ids="Column of ids to write next to file and row.")
@opt.method_options()
@opt.backends
def sign(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Write a row for each document of INPUT, to find candidates in SQL.

    The columns are document, file, row, the signature's values v0, v1, ... and the band digests band0, band1, ...
    Documents with the same value in a band column are candidates. The values of simhash are words of 64 bits; near
    documents differ in at most DISTANCE bits.
    """
    from gpulsh.checks import plural
    from gpulsh.run.signatures import sign_files

    documents = sign_files(inputs, output, progress=True, **opt.given_options(options))
    conclude(f"Signatures of {plural(documents, 'document')} are in {output}.")
