"""`gpulsh compare`: methods side by side on documents of the user's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from gpulsh.cli.options import backend_options, form_of, method_options, parsed, sample_option, text_options
from gpulsh.cli.study import aligned
from gpulsh.cli.terminal import say

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.backends.select import BackendName
    from gpulsh.method import Verify
    from gpulsh.studies.compare import Comparison


@click.command(short_help="Run several methods on a sample of files, and count what each finds.")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--methods",
    metavar="NAME[,NAME...]",
    help="Methods, as --sketch of dedup names them, and others.  [default: minhash:128,fast:128,one-permutation:128,"
    "c-minhash:128,simhash:64]",
)
@click.option(
    "--verify",
    default="none,exact",
    show_default=True,
    metavar="HOW[,HOW...]",
    help="How candidates are judged, each a row: none, signature, exact.",
)
@sample_option
@method_options("threshold", "shingle", "normalize", "seed")
@click.option(
    "--truth", metavar="PAIRS", help="Parquet of all true pairs: i, j, and jaccard where not all are; else brute force."
)
@text_options()
@backend_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
def compare(
    inputs: Sequence[str],
    methods: str | None,
    verify: str,
    truth: str | None,
    text_column: str,
    backend: BackendName,
    threads: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run METHODS on a sample of INPUT and judge them by brute force.

    True are the pairs with an exact Jaccard similarity of --threshold or more. Of each method the table shows how many
    pairs it takes for candidates and which share of them is found, verified or not; precision, recall and F1 of those;
    seconds from text to pairs, and bytes of a document's sketch.
    """
    from gpulsh.studies.compare import METHODS
    from gpulsh.studies.compare import compare as compared
    from gpulsh.studies.corpus import open_corpus, read_pairs

    form = form_of(options)
    given = parsed(options)
    corpus = open_corpus(inputs, text_column=text_column, backend=backend, threads=threads, **form)
    found = compared(
        corpus,
        METHODS if methods is None else methods.split(","),
        verify=cast("Sequence[Verify]", verify.split(",")),  # which checks them
        truth=None if truth is None else read_pairs(truth, given.get("threshold", 0.8)),
        backend=backend,
        threads=threads,
        **given,
    )
    say(json.dumps(found.facts(), indent=2) if as_json else "\n".join(_told(found)))


def _told(found: Comparison) -> Iterator[str]:
    from gpulsh.studies.compare import HEAD

    yield str(found)
    yield ""
    yield from aligned([HEAD, *(row.told() for row in found.methods)], left=2)
