"""`gpulsh dedup`: files in, kept rows and evidence out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from datetime import UTC, datetime
from typing import Any

import click

from gpulsh.cli.ending import ended_cleanly
from gpulsh.cli.options import backend_options, choice, method_options, parsed, text_options
from gpulsh.cli.sections import SectionedCommand
from gpulsh.cli.terminal import conclude, say, tell

SECTIONS = {  # first option -> heading
    "text_column": "Input",
    "output": "Output",
    "threshold": "What a duplicate is",
    "keep": "Which of two is kept",
    "sketch": "How candidates are found",
    "backend": "Machine",
}
SHOWN = 12  # files that a run would write
EXAMPLES = {  # command -> what it is for
    "gpulsh dedup crawl/ -o clean/": "A folder of Parquet, JSON lines, CSV, WARC or text files",
    "gpulsh dedup crawl/ -o clean/ --format parquet": "Whatever comes in, kept rows as Parquet",
    "gpulsh dedup posts.jsonl.gz -o clean/ --text-column body --id-column id": "Another column; ids in the evidence",
    "gpulsh dedup titles.csv -o clean/ --text-column title --shingle char:4+symbols": "Texts of a few words",
    "gpulsh dedup code/ -o clean/ --as-text '*.py'": "Source files, each one text",
    "gpulsh dedup train/ -o clean/ --protect test/": "Drop from a training set what is near a test set",
    "gpulsh dedup march/ -o clean/march --index known/ --id-column url": "Drop what earlier months had, too",
    "gpulsh dedup s3://lake/crawl/ -o s3://lake/clean/ --work /scratch/clean": "From a bucket to a bucket",
    "gpulsh dedup crawl/ -o clean/ --dry-run": "What a run will take and write, before it begins",
    "gpulsh dedup crawl/ -o clean/ --resume": "Go on after a kill",
}


@click.command(
    cls=SectionedCommand, sections=SECTIONS, examples=EXAMPLES, short_help="Remove near-duplicates from files."
)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@text_options(ids="Column or field to name documents by in duplicates.parquet.")
@choice("--on-error", "fail", "skip", help="Stop at a bad record, or list it in rejected.parquet and go on.")
@click.option("-o", "--output", required=True, metavar="OUT", help="Folder of the results, made here, or a URL.")
@choice("--write", "data", "duplicates", help="Kept rows and the evidence, or the evidence alone.")
@click.option(
    "--format",
    type=click.Choice(["parquet", "jsonl"]),
    help="Of the kept rows: WARC gets the columns id, url, date and text.  [default: that of each file]",
)
@click.option(
    "--compression",
    metavar="CODEC[:LEVEL]",
    help="Codec of the kept rows. Parquet: none, snappy, lz4, gzip, brotli or zstd, as zstd:9. JSON lines by --format:"
    " none, gzip or zstd. Other .gz and .zst files: a level of their own codec.  [default: the input's codec]",
)
@click.option(
    "--work",
    metavar="PATH",
    help="Local folder with room for the results where OUT is a URL, which --resume needs; one in TMPDIR where not"
    " given.",
)
@click.option("--resume", is_flag=True, help="Go on with an unfinished run of the same job in OUT.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier run's results in OUT, and nothing else.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check options, INPUT and OUT, run a sample, say what the run will take and write; write nothing.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the report as JSON instead of the table, and the progress as JSON lines on standard error.",
)
@method_options("threshold", "shingle", "normalize", "measure")
@choice("--verify", "exact", "signature", "none", help="How candidates are judged.")
@click.option(
    "--keep",
    metavar="first|longest|source:INPUT,...|COLUMN",
    help="Which of two duplicates is kept: by order, by length, by input, or by the highest number or latest date of a"
    " column."
    "  [default: first; longest with --measure containment, but not with --index]",
)
@choice(
    "--resolve",
    "kept",
    "components",
    help="Drop only what duplicates a kept document, or all but one of a connected component.",
)
@click.option(
    "--protect",
    multiple=True,
    metavar="PATH",
    help="Documents that are never dropped and that others are dropped for, as a test set; not written.",
)
@click.option("--within", is_flag=True, help="Only documents of one INPUT are duplicates of one another.")
@click.option("--across", is_flag=True, help="Only documents of two INPUTs are duplicates of one another.")
@click.option(
    "--index",
    metavar="PATH",
    help="Index of earlier runs, made where absent: drop what it holds too, and add the documents by id or FILE:ROW.",
)
@method_options("sketch", "num-perm", "bands", "rows", "seed")
@click.option(
    "--and",
    "also",
    metavar="simhash[:BITS][:DISTANCE]",
    help="Only candidates whose SimHash signatures differ in at most DISTANCE bits are compared; where not given, in as"
    " many as pairs at the threshold may.",
)
@backend_options
@click.option(
    "--devices",
    metavar="N[,N...]",
    callback=lambda context, option, given: None if given is None else _device_numbers(given),
    help="Numbers of the CUDA devices that share the work; all where not given.",
)
@choice("--reader", "arrow", "cudf", help="cudf decodes Parquet files on the device, with --backend cuda.")
@click.option(
    "--memory",
    metavar="SIZE",
    help="What the run may take, as 4GiB; 8GiB, or half of the memory where that is less, where not given.",
)
@choice(
    "--engine",
    "local",
    "ray",
    help="This process, or workers on a Ray cluster, which --memory and --threads are then of.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Ray cluster to join, or auto, with --engine ray; one is started on this machine where not given.",
)
def dedup(inputs: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """Write INPUT without its near-duplicates to OUT.

    INPUT is a file, folder, glob or URL of Parquet, Arrow IPC, WARC and WET (plain, .gz), or of JSON lines or arrays,
    CSV and TSV with a header, or text (plain, .gz, .bz2, .xz, .zst), or - for standard input. A quoted
    glob is one INPUT, one that the shell expands as many as it finds. OUT gets data/ (the kept rows, file by file; with
    several folders or globs, or equal names, in a folder for each INPUT, named by the end of its path),
    duplicates.parquet (each dropped document with the kept one it duplicates), report.json and, where jinja2 is
    installed (pip install "gpulsh[report]"), report.html.

    With --engine ray all nodes must see INPUT and OUT under the same paths: stages hand on what they make in OUT/_work.

    --verbose shows where an error comes from.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    # Ray prints which of its processes ended, and standard output is for the result.
    with (
        ended_cleanly(),
        redirect_stdout(sys.stderr if options["engine"] == "ray" else sys.stdout),
        _limited(options),
    ):
        from gpulsh.run.files import deduplicate_files

        if options["dry_run"]:
            _dry_run(inputs, output, as_json, options)
            return
        result = deduplicate_files(list(inputs), output, progress="json" if as_json else True, **parsed(options))
    if as_json:
        conclude(json.dumps(result.report, indent=2))
        return
    if not result.report.get("page", {}).get("written", True):
        tell(f"gpulsh: {result.report['page']['reason']}")
    from gpulsh.report.summary import funnel_table

    began = result.report["began"]
    before = f", of this run as it was finished before; it began {began}" if datetime.fromisoformat(began) < now else ""
    conclude(f"{funnel_table(result.report)}\n\nResults are in {output}{before}")


def _limited(options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Have the kernel enforce `--memory`; workers of Ray do so themselves, and nothing is known of CUDA."""
    from gpulsh.backends.parallel import processors
    from gpulsh.backends.select import backend_status
    from gpulsh.budget import parse_memory
    from gpulsh.memory_limit import memory_limit

    on_device = options["backend"] == "cuda" or (options["backend"] == "auto" and backend_status()["cuda"] is None)
    if options["engine"] == "ray" or on_device:
        return nullcontext()
    return memory_limit(parse_memory(options["memory"]), options["threads"] or processors())


def _dry_run(inputs: tuple[str, ...], output: str, as_json: bool, options: Mapping[str, Any]) -> None:
    from gpulsh.cli.plan import plan_table
    from gpulsh.forecast.sample import plan
    from gpulsh.run.files import deduplicate_files

    report = deduplicate_files(list(inputs), output, **parsed(options)).report
    left_out = ("dry_run", "overwrite", "resume", "engine", "work")
    found = plan(inputs, {name: value for name, value in options.items() if name not in left_out})
    outputs = [f"{output.rstrip('/')}/{name}" for name in report["outputs"]]
    if as_json:
        say(json.dumps({**found.to_dict(), "outputs": outputs}, indent=2))
        return
    some = outputs if len(outputs) <= SHOWN else [*outputs[: SHOWN - 1], f"and {len(outputs) - SHOWN + 1:,} more files"]
    say(
        "\n".join(
            [plan_table(found), "", f"{output} is as it was; the run would write", *(f"  {name}" for name in some)]
        )
    )


def _device_numbers(given: str) -> list[int]:
    parts = given.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise click.BadParameter(f"{given!r} is no list of device numbers; give them as 0,1")
    return [int(part) for part in parts]
