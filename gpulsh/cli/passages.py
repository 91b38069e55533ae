"""`gpulsh passages` finds text that repeats inside documents of files; `gpulsh cut` writes the files without it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from gpulsh.cli import options as opt
from gpulsh.cli.dedup import enforced_memory
from gpulsh.cli.terminal import conclude, note

SECTIONS = {
    "text_column": "Input",
    "output": "Output",
    "tokens": "Passages",
    "protect": "Test sets",
    "symbols": "Tokens",
    "cut": "Cut",
    "backend": "Machine",
}
CUT_SECTIONS = {"passages": "Passages", "output": "Output", "backend": "Machine"}
EXAMPLES = {  # command -> its purpose
    "gpulsh passages crawl/ -o marks/": "List repeated text, with the place of each first occurrence",
    "gpulsh passages crawl/ -o clean/ --cut": "Also write the documents without it",
    "gpulsh passages posts.jsonl -o marks/ --text-column body --tokens 30 --whole-lines": "Another column; whole lines",
    "gpulsh passages train/ -o clean/ --protect test/ --passages 13 --cut": "Cut the questions of a test set",
    "gpulsh passages day2/ -o marks/day2 --index known/": "Also list text that documents of earlier days contain",
    "gpulsh passages crawl/ -o marks/ --unit line --max-copies 6 --within host": "Lines repeated on a host",
}
CUT_EXAMPLES = {
    "gpulsh cut crawl/ --passages marks/passages.parquet -o clean/": "Cut the passages that `gpulsh passages` listed",
    "gpulsh cut crawl/ --passages marks/passages.parquet -o clean/ --min-occurrences 10": "Cut only frequent passages",
}

_inputs = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
_output = opt.combine_options(
    opt.value("-o --output", "OUT", "Folder for the results.", required=True),
    opt.overwrite_and_resume,
    opt.report,
)
_cutting = opt.combine_options(
    opt.number("--min-left", "N", "Drop a document if a cut leaves fewer tokens.", default=20),
    opt.number("--min-occurrences", "N", "Cut only passages that occur at least N times.", default=2),
    click.option(
        "--format",
        type=click.Choice(["parquet", "jsonl"]),
        help="Format of the texts; required for WARC.  [default: match the input's format]",
    ),
)
_machine = opt.combine_options(opt.backends, opt.engine)


@click.command(
    cls=opt.SectionedCommand,
    sections=SECTIONS,
    examples=EXAMPLES,
    short_help="Find text that repeats inside documents of files.",
)
@_inputs
@opt.text_options(ids="Column or field of ids, which name the documents in passages.parquet.")
@opt.on_error
@_output
@opt.number("--tokens", "N", "Number of tokens in a window.", default=50)
@opt.number("--bytes", "N", "Use windows of N bytes of UTF-8, compared exactly.")
@opt.choice(
    "--keep", "first", "minimal", "none", help="Copies to keep: the whole first one, the fewest tokens, or none."
)
@opt.number("--bridge", "N", "Also mark gaps of fewer than N tokens between two marks.", default=0)
@opt.flag("--whole-lines", "Also mark the rest of every line that contains a mark.")
@opt.choice(
    "--unit",
    "word",
    "char",
    "line",
    "paragraph",
    help="Unit of a window: a word or a character. Or mark frequent lines, or paragraphs up to a blank line.",
)
@opt.number("--max-copies", "N", "Number of equal lines or paragraphs to keep.  [default: 6]")
@opt.value(
    "--within", "COLUMN", "Count only copies in documents with an equal value of this column, such as a web host."
)
@opt.value(
    "--index",
    "PATH",
    "Index of earlier runs, created if missing: also mark text of their documents, and add the new documents.",
)
@opt.protect_options(
    "Files of a test set. Mark text from its items, instead of repeated text. May be repeated.",
    "With --protect: windows of N words, such as 13. contamination.parquet lists the items in documents.",
)
@opt.flag("--symbols", "Also treat each symbol as a token.")
@opt.method_options("normalize")
@opt.flag("--cut", "Also write data/ without the passages, as gpulsh cut does.")
@_cutting
@_machine
def passages(inputs: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """List text that repeats inside documents of INPUT.

    A window is N consecutive tokens of a document. It repeats if an equal window comes earlier. With --keep first,
    gpulsh marks the tokens of repeated windows, except tokens in a first occurrence, so the first copy stays whole.
    With --unit line, it marks lines that follow --max-copies equal ones.

    With --protect and --passages, it marks text from the items of a test set, such as questions.

    OUT/passages.parquet has a row for each passage: its place in bytes of the text, the place of the first occurrence,
    and how often it occurs. report.json has the counts and the most frequent passages; report.html shows them, if
    jinja2 is installed (pip install "gpulsh[report]").
    """
    from gpulsh.run.passages.files import passages_files

    _run(passages_files, inputs, output, as_json, options)


@click.command(
    cls=opt.SectionedCommand,
    sections=CUT_SECTIONS,
    examples=CUT_EXAMPLES,
    short_help="Write files without repeated passages.",
)
@_inputs
@opt.value("--passages", "FILE", "passages.parquet of `gpulsh passages` on this INPUT.", required=True)
@_cutting
@_output
@_machine
def cut(inputs: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """Write INPUT to OUT, without the passages that FILE lists.

    OUT/data has the rows of INPUT with all columns; only texts change. short.parquet lists the documents dropped by
    --min-left. A cut joins the text before and after a passage. This may create new repeats; `gpulsh passages OUT/data`
    finds them.
    """
    from gpulsh.run.passages.files import cut_files

    _run(cut_files, inputs, output, as_json, options)


def _run(
    function: Callable[..., Any], inputs: tuple[str, ...], output: str, as_json: bool, options: Mapping[str, Any]
) -> None:
    """Run the job, and print its report or some lines about its passages."""
    from gpulsh.checks import plural
    from gpulsh.report.summary import results_sentence
    from gpulsh.report.wording import share

    now = datetime.now(UTC).replace(microsecond=0)
    with enforced_memory(options):
        progress = "json" if as_json else True
        report: Mapping[str, Any] = function(
            list(inputs), output, progress=progress, **opt.given_options(options)
        ).report
    if as_json:
        conclude(json.dumps(report, indent=2))
        return
    found, lines = report["passages"], []
    if "passages" in found:  # the job has found them, or only cut them
        if not report["page"]["written"]:
            note(f"gpulsh: {report['page']['reason']}")
        documents = f"{found['documents_marked']:,} of {plural(found['documents'], 'document')}"
        part = share(found["bytes_marked"], found["bytes"])
        lines.append(f"Found {plural(found['passages'], 'passage')} in {documents}{part and f': {part} of the text'}.")
    if found.get("earlier_documents"):
        held = f"{plural(found['earlier_documents'], 'document')} of earlier runs"
        lines.append(f"First occurrence in the {held}: {plural(found['first_earlier'], 'passage')}.")
    if "cut_bytes" in found:
        counts = f"{plural(found['cut_passages'], 'passage')} of {plural(found['cut_documents'], 'document')}"
        lines.append(f"Cut {counts}, and dropped {plural(found['short'], 'document')} with too few tokens left.")
    if found.get("rejected"):
        lines.append(f"Bad records are in rejected.parquet: {found['rejected']:,}.")
    earlier = datetime.fromisoformat(report["began"]) < now
    lines.append(results_sentence(report, output, resumed=bool(report["resumed"]), earlier=earlier))
    conclude("\n".join(lines))
